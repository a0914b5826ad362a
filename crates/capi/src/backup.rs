//! The check, changes of keys, backups. Threads: any.

use std::mem::size_of;

use heliox::BackupOptions;

use crate::border::{c_string, need, place, Grown, OutHandle, Shown, Text, User};
use crate::error::{answer, ErrorOut};
use crate::failure::{Code, Result};
use crate::handles::Store;
use crate::layout::{
    BackupInfo, BackupReport, CheckReport, KeyChange, RestoreReport, VerifyReport,
};
use crate::options::{path_of, Key, StoreOptions};
use crate::report::ProgressFn;
use crate::value::List;

/// `heliox_backup_info_fn`.
pub(crate) type BackupInfoFn = extern "C" fn(user: User, info: Option<&BackupInfo<'_>>);

/// The place for a list of problems, which may be missing.
fn problem_place(problems: OutHandle<'_, List>) -> Result<Option<&mut Option<Box<List>>>> {
    problems.map(|p| place(Some(p), "problems")).transpose()
}

#[no_mangle]
extern "C" fn heliox_check(
    path: Text<'_>,
    options: Option<&StoreOptions>,
    progress: Option<ProgressFn>,
    user: User,
    report: Grown<'_, CheckReport>,
    problems: OutHandle<'_, List>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let problems = problem_place(problems)?;
        report.check("report")?;
        let path = path_of(path, options)?;
        let options = StoreOptions::of(options);
        let told = heliox::Store::check(path, &options, &mut |at| {
            if let Some(progress) = progress {
                progress(user, at.done_bytes, at.total_bytes);
            }
        })?;
        let filled = CheckReport {
            struct_size: size_of::<CheckReport>(),
            records: told.records,
            entries: told.entries,
            segments: told.segments,
            bytes: told.bytes,
            strangers: told.strangers,
            problem_count: told.problem_count,
        };
        report.fill(&filled, "report")?;
        if let Some(problems) = problems {
            *problems = Some(List::of(&told.problems));
        }
        Ok(Code::Ok)
    })
}

fn tell_change(told: heliox::KeyChange, report: &Grown<'_, KeyChange>) -> Result<()> {
    let filled = KeyChange {
        struct_size: size_of::<KeyChange>(),
        data_keys: told.data_keys as u64,
        added: told.added,
    };
    report.fill(&filled, "report")
}

#[no_mangle]
extern "C" fn heliox_change_key(
    path: Text<'_>,
    options: Option<&StoreOptions>,
    next: Option<&Key>,
    report: Grown<'_, KeyChange>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        report.check("report")?;
        let path = path_of(path, options)?;
        let next = &need(next, "next")?.0;
        let told = heliox::Store::change_key(path, &StoreOptions::of(options), next)?;
        tell_change(told, &report)?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_rotate_key(
    store: Option<&Store>,
    next: Option<&Key>,
    report: Grown<'_, KeyChange>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        report.check("report")?;
        let store = &need(store, "store")?.store;
        let told = store.rotate_key(&need(next, "next")?.0)?;
        tell_change(told, &report)?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_store_backup(
    store: Option<&Store>,
    set: Text<'_>,
    keep: u64,
    progress: Option<ProgressFn>,
    user: User,
    report: Grown<'_, BackupReport>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        report.check("report")?;
        let store = &need(store, "store")?.store;
        let options = match keep {
            0 => BackupOptions::new(),
            keep => BackupOptions::new().keep(keep),
        };
        let told = store.backup(set.path("set")?, &options, &mut |at| {
            if let Some(progress) = progress {
                progress(user, at.done_bytes, at.total_bytes);
            }
        })?;
        let filled = BackupReport {
            struct_size: size_of::<BackupReport>(),
            number: told.number,
            segments: told.segments,
            bytes: told.bytes,
            copied_segments: told.copied_segments,
            copied_bytes: told.copied_bytes,
            shared_bytes: told.shared_bytes,
            removed: told.removed,
        };
        report.fill(&filled, "report")?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_backups(
    set: Text<'_>,
    visit: Option<BackupInfoFn>,
    user: User,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let visit = need(visit, "visit")?;
        for told in heliox::Store::backups(set.path("set")?)? {
            let damage = told.damage.as_deref().map(c_string);
            let info = BackupInfo {
                struct_size: size_of::<BackupInfo<'_>>(),
                number: told.number,
                created_ms: told.created_ms,
                segments: told.segments,
                bytes: told.bytes,
                damage: damage.as_deref().map_or(Shown::NULL, Shown::of),
            };
            visit(user, Some(&info));
        }
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_delete_backup(set: Text<'_>, number: u64, error: ErrorOut<'_>) -> Code {
    answer(error, || {
        heliox::Store::delete_backup(set.path("set")?, number)?;
        Ok(Code::Ok)
    })
}

/// The number of a backup; 0 stands for none in particular.
fn numbered(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

#[no_mangle]
extern "C" fn heliox_restore(
    set: Text<'_>,
    number: u64,
    path: Text<'_>,
    options: Option<&StoreOptions>,
    progress: Option<ProgressFn>,
    user: User,
    report: Grown<'_, RestoreReport>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        report.check("report")?;
        let (set, path) = (set.path("set")?, path_of(path, options)?);
        let options = StoreOptions::of(options);
        let told = heliox::Store::restore(set, numbered(number), path, &options, &mut |at| {
            if let Some(progress) = progress {
                progress(user, at.done_bytes, at.total_bytes);
            }
        })?;
        let filled = RestoreReport {
            struct_size: size_of::<RestoreReport>(),
            number: told.number,
            created_ms: told.created_ms,
            segments: told.segments,
            bytes: told.bytes,
            capacity_bytes: told.capacity_bytes,
        };
        report.fill(&filled, "report")?;
        Ok(Code::Ok)
    })
}

#[no_mangle]
extern "C" fn heliox_verify_backup(
    set: Text<'_>,
    number: u64,
    options: Option<&StoreOptions>,
    progress: Option<ProgressFn>,
    user: User,
    report: Grown<'_, VerifyReport>,
    problems: OutHandle<'_, List>,
    error: ErrorOut<'_>,
) -> Code {
    answer(error, || {
        let problems = problem_place(problems)?;
        report.check("report")?;
        let set = set.path("set")?;
        let options = StoreOptions::of(options);
        let told = heliox::Store::verify_backup(set, numbered(number), &options, &mut |at| {
            if let Some(progress) = progress {
                progress(user, at.done_bytes, at.total_bytes);
            }
        })?;
        let filled = VerifyReport {
            struct_size: size_of::<VerifyReport>(),
            backups: told.backups,
            files: told.files,
            bytes: told.bytes,
            records: told.records,
            problem_count: told.problem_count,
        };
        report.fill(&filled, "report")?;
        if let Some(problems) = problems {
            *problems = Some(List::of(&told.problems));
        }
        Ok(Code::Ok)
    })
}
