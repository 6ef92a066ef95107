//! Reads a scheduler's debugging information: lines of code, types of global variables, and maps. As in BTF, which
//! libbpf reads, a map is a variable whose type encodes the parameters (`__uint` a number as the length of an array,
//! `__type` a type as the target of a pointer).

use crate::compile::HEADERS;
use gimli::{AttributeValue, EndianSlice, RunTimeEndian, Unit, UnitOffset};
use object::{Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// The parameters in a map's definition; omitted parameters are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapDefinition {
    /// `BPF_MAP_TYPE_*`.
    pub kind: u32,
    /// The size of a key, in bytes.
    pub key_size: u32,
    /// The size of a value, in bytes.
    pub value_size: u32,
    /// The number of entries.
    pub max_entries: u32,
    /// The offset of the initial values (`.values = { ... }`) in the variable, in bytes; 0 if there are no such values.
    pub values_offset: u32,
    /// The definition of the inner maps, if this is an array of maps.
    pub inner: Option<Inner>,
}

/// The definition of an inner map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inner {
    /// `BPF_MAP_TYPE_*`.
    pub kind: u32,
    /// The size of a key, in bytes.
    pub key_size: u32,
    /// The size of a value, in bytes.
    pub value_size: u32,
    /// The number of entries.
    pub max_entries: u32,
    /// Whether, by this definition, the inner maps also hold maps.
    pub holds_maps: bool,
}

/// The longest chain of types that refer to each other (typedefs, qualifiers, arrays). A type can refer to itself.
const LONGEST_CHAIN: usize = 64;

fn dwarf<'a>(file: &object::File<'a>) -> Result<gimli::Dwarf<Slice<'a>>, gimli::Error> {
    gimli::Dwarf::load(|id| {
        let section = file.section_by_name(id.name());
        let data = section.and_then(|section| section.data().ok());
        Ok(EndianSlice::new(data.unwrap_or(&[]), RunTimeEndian::Little))
    })
}

/// `FILE:LINE` of the instruction at `address`. For code inlined from the simulated kernel's headers, it is the line of
/// the call.
pub fn line(file: &object::File<'_>, address: u64) -> Option<String> {
    let context = addr2line::Context::from_dwarf(dwarf(file).ok()?).ok()?;
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut found = None;
    while let Ok(Some(frame)) = frames.next() {
        let Some(location) = frame.location else {
            continue;
        };
        let (Some(path), Some(line)) = (location.file, location.line) else {
            continue;
        };
        let path = std::path::Path::new(path);
        // A `#line` may give the file any name.
        let name = cage::text::one_line(path.file_name()?.to_str()?);
        found = Some(format!("{name}:{line}"));
        if !HEADERS.iter().any(|(header, _)| path.ends_with(header)) {
            break;
        }
    }
    found
}

/// The definitions of the variables `names`, by name; `None` for a `static` variable.
pub fn maps(
    file: &object::File<'_>,
    names: &[&str],
) -> Result<HashMap<String, Option<MapDefinition>>, gimli::Error> {
    let mut found = HashMap::new();
    each_global(file, |dwarf, unit, global| {
        let name = global.name.to_owned();
        if !names.contains(&global.name) {
            return Ok(());
        } else if global.is_static {
            found.insert(name, None);
        } else {
            let definition = map(dwarf, unit, global.kind, 0)?;
            found.entry(name).or_insert(Some(definition));
        }
        Ok(())
    })?;
    Ok(found)
}

/// A `const` variable of the scheduler.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Constant {
    /// Is the variable also `volatile`, so that a loader sets it?
    pub is_volatile: bool,
    /// Is the variable an unsigned integer or a bool?
    pub is_unsigned: bool,
}

/// The global variables that are `const`, by name and address. The section of a variable does not show whether it is
/// constant, because a compiler may put a variable that is also `volatile` into writable memory. The name alone does not
/// show it, because each file of a scheduler may have a `static` variable of that name.
pub fn constants(
    file: &object::File<'_>,
) -> Result<HashMap<(String, u64), Constant>, gimli::Error> {
    let mut found = HashMap::new();
    each_global(file, |_, unit, global| {
        let (is_constant, is_volatile) = qualifiers(unit, global.kind)?;
        if is_constant {
            let constant = Constant {
                is_volatile,
                is_unsigned: is_unsigned(unit, global.kind)?,
            };
            found.insert((global.name.to_owned(), global.address), constant);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The global variables that are pointers to a `struct task_struct`, or arrays of them.
pub fn task_pointers(file: &object::File<'_>) -> Result<Vec<String>, gimli::Error> {
    let mut found = Vec::new();
    each_global(file, |dwarf, unit, global| {
        if points_to_task(dwarf, unit, global.kind)? {
            found.push(global.name.to_owned());
        }
        Ok(())
    })?;
    Ok(found)
}

fn points_to_task(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    kind: UnitOffset,
) -> Result<bool, gimli::Error> {
    let mut entry = resolve(unit, kind)?;
    for _ in 0..LONGEST_CHAIN {
        match (entry.tag(), reference(&entry)) {
            (gimli::DW_TAG_array_type, Some(element)) => entry = resolve(unit, element)?,
            _ => break,
        }
    }
    let (gimli::DW_TAG_pointer_type, Some(pointee)) = (entry.tag(), reference(&entry)) else {
        return Ok(false);
    };
    let Some(name) = resolve(unit, pointee)?.attr_value(gimli::DW_AT_name) else {
        return Ok(false);
    };
    Ok(dwarf.attr_string(unit, name)?.slice() == b"task_struct")
}

fn is_unsigned(unit: &Unit<Slice<'_>>, offset: UnitOffset) -> Result<bool, gimli::Error> {
    let encoding = resolve(unit, offset)?.attr_value(gimli::DW_AT_encoding);
    Ok(matches!(
        encoding,
        Some(AttributeValue::Encoding(
            gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_boolean
        ))
    ))
}

/// Is the type at `offset`, or the type of its elements if it is an array, `const`, and is it `volatile`?
fn qualifiers(
    unit: &Unit<Slice<'_>>,
    mut offset: UnitOffset,
) -> Result<(bool, bool), gimli::Error> {
    let (mut is_constant, mut is_volatile) = (false, false);
    for _ in 0..LONGEST_CHAIN {
        let entry = unit.entry(offset)?;
        match entry.tag() {
            gimli::DW_TAG_const_type => is_constant = true,
            gimli::DW_TAG_volatile_type => is_volatile = true,
            gimli::DW_TAG_typedef | gimli::DW_TAG_array_type => {}
            _ => return Ok((is_constant, is_volatile)),
        }
        let Some(inner) = reference(&entry) else {
            return Ok((is_constant, is_volatile));
        };
        offset = inner;
    }
    Err(ENDLESS)
}

/// The error for a type that refers to itself, or is nested too deeply.
const ENDLESS: gimli::Error = gimli::Error::TypeMismatch;

struct Global<'a> {
    name: &'a str,
    kind: UnitOffset,
    address: u64,
    is_static: bool,
}

fn each_global<'a>(
    file: &object::File<'a>,
    mut what: impl FnMut(
        &gimli::Dwarf<Slice<'a>>,
        &Unit<Slice<'a>>,
        Global<'a>,
    ) -> Result<(), gimli::Error>,
) -> Result<(), gimli::Error> {
    let dwarf = dwarf(file)?;
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            // Search only directly below the unit, because a function's variable may have the name of a map.
            if entry.tag() != gimli::DW_TAG_variable || entry.depth() != 1 {
                continue;
            }
            let Some(address) = address(&unit, entry) else {
                continue;
            };
            // A variable that was declared before has its name and type in the declaration.
            let declared = match entry.attr_value(gimli::DW_AT_specification) {
                Some(AttributeValue::UnitRef(offset)) => unit.entry(offset)?,
                _ => entry.clone(),
            };
            let Some(name) = declared.attr_value(gimli::DW_AT_name) else {
                continue;
            };
            let name = dwarf.attr_string(&unit, name)?;
            if let Some(kind) = reference(entry).or_else(|| reference(&declared)) {
                let global = Global {
                    name: name.to_string()?,
                    kind,
                    address,
                    is_static: declared.attr_value(gimli::DW_AT_external).is_none(),
                };
                what(&dwarf, &unit, global)?;
            }
        }
    }
    Ok(())
}

/// The address of the variable `entry`, if it is a definition.
fn address(
    unit: &Unit<Slice<'_>>,
    entry: &gimli::DebuggingInformationEntry<Slice<'_>>,
) -> Option<u64> {
    let AttributeValue::Exprloc(place) = entry.attr_value(gimli::DW_AT_location)? else {
        return None;
    };
    match place.operations(unit.encoding()).next().ok()?? {
        gimli::Operation::Address { address } => Some(address),
        _ => None,
    }
}

fn reference(entry: &gimli::DebuggingInformationEntry<Slice<'_>>) -> Option<UnitOffset> {
    match entry.attr_value(gimli::DW_AT_type)? {
        AttributeValue::UnitRef(offset) => Some(offset),
        _ => None,
    }
}

/// The entry at `offset` behind typedefs and qualifiers.
fn resolve<'a>(
    unit: &Unit<Slice<'a>>,
    mut offset: UnitOffset,
) -> Result<gimli::DebuggingInformationEntry<Slice<'a>>, gimli::Error> {
    for _ in 0..LONGEST_CHAIN {
        let entry = unit.entry(offset)?;
        match (entry.tag(), reference(&entry)) {
            (
                gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type,
                Some(inner),
            ) => offset = inner,
            _ => return Ok(entry),
        }
    }
    Err(ENDLESS)
}

/// The definition of the map of type `kind`, which is nested `depth` levels deep in other maps.
fn map<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    kind: UnitOffset,
    depth: u32,
) -> Result<MapDefinition, gimli::Error> {
    let mut definition = MapDefinition::default();
    let structure = resolve(unit, kind)?;
    let mut tree = unit.entries_tree(Some(structure.offset()))?;
    let mut members = tree.root()?.children();
    while let Some(member) = members.next()? {
        let member = member.entry();
        let (Some(name), Some(kind)) = (member.attr_value(gimli::DW_AT_name), reference(member))
        else {
            continue;
        };
        let name = dwarf.attr_string(unit, name)?;
        if name.to_string()? == "values" {
            definition.values_offset = member
                .attr_value(gimli::DW_AT_data_member_location)
                .and_then(|value| value.udata_value())
                .map_or(0, |offset| u32::try_from(offset).unwrap_or(u32::MAX));
            definition.inner = match depth {
                0 => inner(dwarf, unit, kind)?,
                // The nesting is too deep for any content.
                _ => Some(Inner::default()),
            };
            continue;
        }
        let Some(pointee) = reference(&resolve(unit, kind)?) else {
            continue;
        };
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let number = || length(unit, pointee).map(narrow);
        let size = || size_of(unit, pointee).map(narrow);
        match name.to_string()? {
            "type" => definition.kind = number()?,
            "key_size" => definition.key_size = number()?,
            "value_size" => definition.value_size = number()?,
            "max_entries" => definition.max_entries = number()?,
            "key" => definition.key_size = size()?,
            "value" => definition.value_size = size()?,
            _ => {}
        }
    }
    Ok(definition)
}

/// The definition of the maps to which the pointers in the array type `values` point.
fn inner<'a>(
    dwarf: &gimli::Dwarf<Slice<'a>>,
    unit: &Unit<Slice<'a>>,
    values: UnitOffset,
) -> Result<Option<Inner>, gimli::Error> {
    let array = resolve(unit, values)?;
    let Some(pointer) = reference(&array).filter(|_| array.tag() == gimli::DW_TAG_array_type)
    else {
        return Ok(None);
    };
    let Some(pointee) = reference(&resolve(unit, pointer)?) else {
        return Ok(None);
    };
    if resolve(unit, pointee)?.tag() != gimli::DW_TAG_structure_type {
        return Ok(None);
    }
    let of = map(dwarf, unit, pointee, 1)?;
    Ok(Some(Inner {
        kind: of.kind,
        key_size: of.key_size,
        value_size: of.value_size,
        max_entries: of.max_entries,
        holds_maps: of.inner.is_some(),
    }))
}

/// Where a member or an enumerator is: its place and, if it is a member, its size, in bytes.
type Place = ([u64; 3], u64);

/// The members or enumerators of a type, by name without flavour.
type Members = BTreeMap<Vec<u8>, Place>;

/// `name` without its flavour (`___` and what follows), which CO-RE ignores. libbpf's `bpf_core_essential_name_len()`.
fn essential(name: &[u8]) -> &[u8] {
    let is_separator = |part: &[u8]| part[0] != b'_' && &part[1..4] == b"___" && part[4] != b'_';
    let place = name.windows(5).rposition(is_separator);
    place.map_or(name, |place| &name[..=place])
}

/// The types of the scheduler that stand for one of the kernel's by their names (`task_struct___old`), but differ from
/// it. In BPF, libbpf finds such a type's members by their names; here the compiler has already placed them.
pub fn wrong_flavours(file: &object::File<'_>) -> Result<BTreeSet<String>, gimli::Error> {
    let dwarf = dwarf(file)?;
    let mut wrong = BTreeSet::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let mut types = HashMap::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let is_type = matches!(
                entry.tag(),
                gimli::DW_TAG_structure_type
                    | gimli::DW_TAG_union_type
                    | gimli::DW_TAG_enumeration_type
            );
            let is_definition = is_type && entry.attr_value(gimli::DW_AT_declaration).is_none();
            let name = entry.attr_value(gimli::DW_AT_name);
            if let Some(name) = name.filter(|_| is_definition) {
                let name = dwarf.attr_string(&unit, name)?.slice();
                types.insert((entry.tag(), name), entry.offset());
            }
        }
        for (&(tag, name), &offset) in &types {
            let original = essential(name);
            if original == name {
                continue;
            }
            let kernels = match types.get(&(tag, original)) {
                Some(&offset) => members(&dwarf, &unit, offset)?,
                None => Members::new(),
            };
            let mut own = members(&dwarf, &unit, offset)?;
            own.retain(|name, place| kernels.get(name) != Some(place) && name != ABSENT);
            if !own.is_empty() {
                wrong.insert(format!("`{}`", String::from_utf8_lossy(name)));
            }
        }
    }
    Ok(wrong)
}

/// The member for which the kernel's selftests ask by a flavour, and which bpf_core_field_exists() says is absent.
const ABSENT: &[u8] = b"core_cookie";

fn members(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    offset: UnitOffset,
) -> Result<Members, gimli::Error> {
    let mut found = Members::new();
    let mut tree = unit.entries_tree(Some(offset))?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let entry = child.entry();
        let number = |at| {
            let value = entry.attr_value(at);
            value.and_then(|value| {
                value
                    .udata_value()
                    .or(value.sdata_value().map(|it| it as u64))
            })
        };
        let name = match entry.attr_value(gimli::DW_AT_name) {
            Some(name) => dwarf.attr_string(unit, name)?.slice(),
            None => &[],
        };
        let size = match reference(entry) {
            Some(kind) => size_of(unit, kind)?,
            None => 0,
        };
        let place = match entry.tag() {
            gimli::DW_TAG_member => [
                gimli::DW_AT_data_member_location,
                gimli::DW_AT_bit_offset,
                gimli::DW_AT_data_bit_offset,
            ],
            gimli::DW_TAG_enumerator => [gimli::DW_AT_const_value; 3],
            _ => continue,
        };
        let place = place.map(|at| number(at).unwrap_or(0));
        found.insert(essential(name).to_vec(), (place, size));
    }
    Ok(found)
}

/// The number of elements of the array type at `offset`.
fn length(unit: &Unit<Slice<'_>>, offset: UnitOffset) -> Result<u64, gimli::Error> {
    let array = resolve(unit, offset)?;
    let mut tree = unit.entries_tree(Some(array.offset()))?;
    let mut children = tree.root()?.children();
    let mut length = 0;
    while let Some(child) = children.next()? {
        let entry = child.entry();
        if entry.tag() == gimli::DW_TAG_subrange_type {
            let number = |at| entry.attr_value(at).and_then(|value| value.udata_value());
            length = match (number(gimli::DW_AT_count), number(gimli::DW_AT_upper_bound)) {
                (Some(count), _) => count,
                (None, Some(last)) => last.wrapping_add(1),
                (None, None) => 0,
            };
        }
    }
    Ok(length)
}

fn size_of(unit: &Unit<Slice<'_>>, mut offset: UnitOffset) -> Result<u64, gimli::Error> {
    let mut count = 1u64;
    for _ in 0..LONGEST_CHAIN {
        let entry = resolve(unit, offset)?;
        let size = entry.attr_value(gimli::DW_AT_byte_size);
        if let Some(size) = size.and_then(|value| value.udata_value()) {
            return Ok(count.saturating_mul(size));
        }
        match (entry.tag(), reference(&entry)) {
            (gimli::DW_TAG_array_type, Some(element)) => {
                count = count.saturating_mul(length(unit, entry.offset())?);
                offset = element;
            }
            (gimli::DW_TAG_pointer_type, _) => {
                return Ok(count.saturating_mul(unit.encoding().address_size.into()));
            }
            _ => return Ok(0),
        }
    }
    Err(ENDLESS)
}

#[cfg(test)]
mod tests {
    use crate::{Error, Object};

    fn compile(declared: &str, used: &str) -> Result<Object, Error> {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("test.bpf.c");
        let text = format!(
            "#include <scx/common.bpf.h>\n{declared}\nu64 f(u64 given) {{ return ({used}) + given; }}\n\
             SCX_OPS_DEFINE(ops, .name = \"x\");"
        );
        std::fs::write(&source, text).unwrap();
        Object::compile(&source)
    }

    #[test]
    fn a_type_with_a_flavour_must_have_the_layout_of_the_kernel_s_type() {
        let task = |members: &str| format!("struct task_struct___a {{ {members} }};");
        let read = |member: &str| format!("((struct task_struct___a *)given)->{member}");
        let wakeups = |value| format!("enum scx_wake_flags___a {{ SCX_WAKE_SYNC___a = {value} }};");
        let value = "bpf_core_enum_value(enum scx_wake_flags___a, SCX_WAKE_SYNC___a)";
        for (declared, used) in [
            (&*task("int pid;"), &*read("pid")),
            (
                &task("void *other;"),
                "bpf_core_field_exists(struct task_struct___a, other)",
            ),
            (
                "struct other___a { int a; };",
                "bpf_core_type_exists(struct other___a)",
            ),
            (&wakeups("1"), value),
        ] {
            let error = compile(declared, used).unwrap_err();
            let expected = "___a`: its members differ in name, place or size";
            assert!(error.0.contains(expected), "{declared}: {error}");
        }
        compile(&wakeups("0x10"), value).unwrap();
        // The linker refuses a remaining call.
        let is_absent = format!(
            "bpf_core_field_exists({}) ? called() : 0",
            read("core_cookie")
        );
        let declared = task("unsigned long core_cookie;") + "extern int called(void);";
        compile(&declared, &is_absent).unwrap();
    }
}
