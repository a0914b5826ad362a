//! The inner loops of a search: counting and matching in small fixed arrays.
//!
//! Every function has a portable form; on x86-64 the widest form that the machine has is taken,
//! asked for once by the standard library. All forms give equal results. Pure; no threads.
#![allow(unsafe_code)]

use crate::blocks::BLOCK_ENTRIES;

/// Heads that are searched at a time.
pub(crate) const HEADS: usize = 16;

/// How many of the 46 slices are smaller than `x`.
#[inline]
pub(crate) fn slices_below(slices: &[u16; BLOCK_ENTRIES], x: u16) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was detected.
        return unsafe { x86::slices_below(slices, x) };
    }
    portable::slices_below(slices, x)
}

/// How many of the 32 first slices are smaller than `x`.
#[inline]
pub(crate) fn firsts_below(firsts: &[u16; 32], x: u16) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was detected.
        return unsafe { x86::firsts_below(firsts, x) };
    }
    portable::firsts_below(firsts, x)
}

/// Which of the 46 slices agree with the known slice `key`: one bit for each.
#[inline]
pub(crate) fn agreeing(slices: &[u16; BLOCK_ENTRIES], key: u16) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512bw") {
            // SAFETY: AVX-512 BW was detected.
            return unsafe { x86::agreeing_512(slices, key) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 was detected.
            return unsafe { x86::agreeing(slices, key) };
        }
    }
    portable::agreeing(slices, key)
}

/// How many of the 16 heads are smaller than `x`.
#[inline]
pub(crate) fn heads_below(heads: &[u64; HEADS], x: u64) -> usize {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 was detected.
        return unsafe { x86::heads_below(heads, x) };
    }
    portable::heads_below(heads, x)
}

/// Asks the processor for the cache line that holds `place`, which is read soon. Only a hint.
#[inline(always)]
pub fn prefetch<T>(place: &T) {
    prefetch_address(std::ptr::from_ref(place).cast());
}

/// Asks for all cache lines of `place`.
#[inline]
pub(crate) fn prefetch_all<T>(place: &T) {
    let start = std::ptr::from_ref(place).cast::<u8>();
    for offset in (0..std::mem::size_of::<T>()).step_by(64) {
        prefetch_address(start.wrapping_add(offset));
    }
}

/// Asks for the cache line at an address, which need not be valid.
#[inline(always)]
pub(crate) fn prefetch_address(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and does not fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        _mm_prefetch(place.cast::<i8>(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

mod portable {
    use super::{BLOCK_ENTRIES, HEADS};
    use crate::slice;

    pub(super) fn slices_below(slices: &[u16; BLOCK_ENTRIES], x: u16) -> usize {
        slices.iter().map(|&slice| usize::from(slice < x)).sum()
    }

    pub(super) fn firsts_below(firsts: &[u16; 32], x: u16) -> usize {
        firsts.iter().map(|&slice| usize::from(slice < x)).sum()
    }

    pub(super) fn agreeing(slices: &[u16; BLOCK_ENTRIES], key: u16) -> u64 {
        let bit = |(at, &entry): (usize, &u16)| u64::from(slice::agrees(entry, key)) << at;
        slices
            .iter()
            .enumerate()
            .map(bit)
            .fold(0, |mask, bit| mask | bit)
    }

    pub(super) fn heads_below(heads: &[u64; HEADS], x: u64) -> usize {
        heads.iter().map(|&head| usize::from(head < x)).sum()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BLOCK_ENTRIES, HEADS};
    use std::arch::x86_64::*;

    /// Where loads of 16 slices start so that they cover all 46 and stay inside.
    const STARTS: [usize; 3] = [0, 16, BLOCK_ENTRIES - 16];
    /// The slices of the last load that the second has seen already.
    const SEEN_TWICE: u32 = 48 - BLOCK_ENTRIES as u32;

    /// A bit for each byte of the lanes in which `slices < x` (two bits a slice).
    #[target_feature(enable = "avx2")]
    fn below(slices: __m256i, x: __m256i) -> u32 {
        let at_least = _mm256_cmpeq_epi16(_mm256_max_epu16(slices, x), slices);
        !(_mm256_movemask_epi8(at_least) as u32)
    }

    #[target_feature(enable = "avx2")]
    fn load16(slices: &[u16], start: usize) -> __m256i {
        let part = &slices[start..start + 16];
        // SAFETY: `part` is 32 readable bytes, and the load need not be aligned.
        unsafe { _mm256_loadu_si256(part.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn slices_below(slices: &[u16; BLOCK_ENTRIES], x: u16) -> usize {
        let x = _mm256_set1_epi16(x as i16);
        let [a, b, c] = STARTS.map(|start| below(load16(slices, start), x));
        let twice = (1u32 << (2 * SEEN_TWICE)) - 1;
        ((a.count_ones() + b.count_ones() + (c & !twice).count_ones()) / 2) as usize
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn firsts_below(firsts: &[u16; 32], x: u16) -> usize {
        let x = _mm256_set1_epi16(x as i16);
        let count = |start| below(load16(firsts, start), x).count_ones();
        ((count(0) + count(16)) / 2) as usize
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn agreeing(slices: &[u16; BLOCK_ENTRIES], key: u16) -> u64 {
        let (key, one) = (_mm256_set1_epi16(key as i16), _mm256_set1_epi16(1));
        STARTS.iter().fold(0, |mask, &start| {
            let entries = load16(slices, start);
            // Bits up to and with the lowest set one do not count.
            let unknown = _mm256_xor_si256(entries, _mm256_sub_epi16(entries, one));
            let unequal = _mm256_andnot_si256(unknown, _mm256_xor_si256(entries, key));
            let agree = _mm256_cmpeq_epi16(unequal, _mm256_setzero_si256());
            let bytes = _mm256_packs_epi16(agree, _mm256_setzero_si256());
            let bits = _mm256_movemask_epi8(bytes) as u32;
            mask | u64::from(bits & 0xff | (bits >> 8 & 0xff00)) << start
        })
    }

    #[target_feature(enable = "avx512bw,avx512f")]
    pub(super) fn agreeing_512(slices: &[u16; BLOCK_ENTRIES], key: u16) -> u64 {
        let (key, one) = (_mm512_set1_epi16(key as i16), _mm512_set1_epi16(1));
        [0, BLOCK_ENTRIES - 32].iter().fold(0, |mask, &start| {
            let part = &slices[start..start + 32];
            // SAFETY: `part` is 64 readable bytes, and the load need not be aligned.
            let entries = unsafe { _mm512_loadu_si512(part.as_ptr().cast()) };
            let unknown = _mm512_xor_si512(entries, _mm512_sub_epi16(entries, one));
            let unequal = _mm512_andnot_si512(unknown, _mm512_xor_si512(entries, key));
            mask | u64::from(_mm512_testn_epi16_mask(unequal, unequal)) << start
        })
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn heads_below(heads: &[u64; HEADS], x: u64) -> usize {
        let flip = _mm256_set1_epi64x(i64::MIN);
        let x = _mm256_xor_si256(_mm256_set1_epi64x(x as i64), flip);
        let sums = heads
            .chunks_exact(4)
            .fold(_mm256_setzero_si256(), |sums, part| {
                // SAFETY: `part` is 32 readable bytes, and the load need not be aligned.
                let heads = unsafe { _mm256_loadu_si256(part.as_ptr().cast()) };
                let below = _mm256_cmpgt_epi64(x, _mm256_xor_si256(heads, flip));
                _mm256_sub_epi64(sums, below)
            });
        let half = _mm_add_epi64(
            _mm256_castsi256_si128(sums),
            _mm256_extracti128_si256(sums, 1),
        );
        (_mm_extract_epi64(half, 0) + _mm_extract_epi64(half, 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slice() -> impl Strategy<Value = u16> {
        prop_oneof![
            1u16..=0xffff,
            Just(0x8000),
            Just(1),
            Just(0xffff),
            0x7ff0u16..0x8010
        ]
    }

    proptest! {
        #[test]
        fn all_forms_agree_on_slices(slices in prop::array::uniform32(slice()),
                                     more in prop::array::uniform14(slice()), x in slice()) {
            let mut all = [0; BLOCK_ENTRIES];
            all[..32].copy_from_slice(&slices);
            all[32..].copy_from_slice(&more);
            prop_assert_eq!(slices_below(&all, x), portable::slices_below(&all, x));
            prop_assert_eq!(firsts_below(&slices, x), portable::firsts_below(&slices, x));
            prop_assert_eq!(agreeing(&all, x | 1), portable::agreeing(&all, x | 1));
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: AVX2 was detected.
                let mask = unsafe { x86::agreeing(&all, x | 1) };
                prop_assert_eq!(mask, portable::agreeing(&all, x | 1));
            }
        }

        #[test]
        fn all_forms_agree_on_heads(heads in prop::array::uniform16(any::<u64>()), x: u64, pick in 0usize..16) {
            prop_assert_eq!(heads_below(&heads, x), portable::heads_below(&heads, x));
            let x = heads[pick];
            prop_assert_eq!(heads_below(&heads, x), portable::heads_below(&heads, x));
        }
    }
}
