# How a drop-in is made of its sources; the Makefile that includes this says what it stands in for.
#
#   NAME      the stood-in library's name, which ours takes in OUT, for the library path
#   REAL      the name under which the library itself lies beside it, for all that ours does not replace
#   SYSTEM    where that library is
#   PRELOAD   the name of the same as ours for LD_PRELOAD, in OUT/preload
#   OUT       where everything goes
#   HELIOX_A  libheliox, as a static library

CXX ?= c++

OBJECTS := $(patsubst src/%.cc,$(OUT)/objects/%.o,$(wildcard src/*.cc))
WARN := -Wall -Wextra -Werror $(EXTRA)
FLAGS := -std=c++17 -O2 -g1 $(WARN) -fPIC -fvisibility=hidden -fvisibility-inlines-hidden \
	-I../include -I..
# Never unloaded: threads of the store may run in it.
LINK := -shared -Wl,-z,nodelete -Wl,--no-undefined -Wl,--version-script=exports.map -Wl,-rpath,'$$ORIGIN' $(EXTRA)
SYSTEM_LIBS := -lpthread -ldl -lm -lrt -lutil
HEADERS := $(wildcard src/*.h) $(wildcard ../dropin/*.h) ../include/heliox.h

.PHONY: all
all: $(OUT)/$(NAME) $(OUT)/preload/$(PRELOAD)

$(OUT)/objects/%.o: src/%.cc $(HEADERS) Makefile ../dropin/library.mk
	@mkdir -p $(OUT)/objects
	$(CXX) $(FLAGS) -c $< -o $@

# The library itself under a name that ours does not have.
$(OUT)/$(REAL): $(SYSTEM)
	@mkdir -p $(OUT)
	cp -L $(SYSTEM) $@.new
	patchelf --set-soname $(REAL) $@.new
	mv $@.new $@

$(OUT)/$(NAME): exports.map $(OBJECTS) $(OUT)/$(REAL) $(HELIOX_A)
	$(CXX) $(LINK) -Wl,-soname,$(NAME) $(OBJECTS) $(HELIOX_A) $(OUT)/$(REAL) \
		$(SYSTEM_LIBS) -o $@.new
	mv $@.new $@

# The system's library stays under its own name.
$(OUT)/preload/$(PRELOAD): exports.map $(OBJECTS) $(SYSTEM) $(HELIOX_A)
	@mkdir -p $(OUT)/preload
	$(CXX) $(LINK) -Wl,-soname,$(PRELOAD) $(OBJECTS) $(HELIOX_A) $(SYSTEM) \
		$(SYSTEM_LIBS) -o $@.new
	mv $@.new $@
