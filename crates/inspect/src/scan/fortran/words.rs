//! Lists of Fortran statements and words.

/// First words of statements that declare data or types, or of function heads with a type.
pub(super) const DECLARATIONS: &[&str] = &[
    "integer",
    "real",
    "double",
    "doubleprecision",
    "complex",
    "logical",
    "character",
    "type",
    "class",
    "dimension",
    "parameter",
    "allocatable",
    "contiguous",
    "target",
    "pointer",
    "intent",
    "value",
    "optional",
    "save",
    "private",
    "public",
    "data",
    "volatile",
    "common",
    "equivalence",
    "intrinsic",
    "implicit",
    "enum",
    "enumerator",
    "sequence",
];

/// First words of the heads of procedures.
pub(super) const HEADS: &[&str] = &[
    "subroutine",
    "function",
    "pure",
    "elemental",
    "impure",
    "recursive",
    "non_recursive",
];

/// Other statements, which only control and compute.
pub(super) const PLAIN: &[&str] = &[
    "contains",
    "return",
    "continue",
    "cycle",
    "exit",
    "select",
    "selectcase",
    "case",
    "default",
    "goto",
    "go",
    "do",
    "allocate",
    "deallocate",
    "nullify",
    "associate",
    "elseif",
    "else",
    "endif",
    "enddo",
    "endselect",
    "endwhere",
    "endforall",
    "endassociate",
    "endblock",
    "endtype",
    "endenum",
    "endsubroutine",
    "endfunction",
    "endmodule",
];

/// Words that may follow `end`.
pub(super) const ENDS: &[&str] = &[
    "if",
    "do",
    "select",
    "where",
    "forall",
    "associate",
    "block",
    "type",
    "enum",
    "subroutine",
    "function",
    "module",
];

/// Statements that no kernel needs, with the reason for the refusal.
pub(super) const REFUSED: &[(&[&str], &str)] = &[
    (
        &[
            "open",
            "close",
            "read",
            "write",
            "print",
            "inquire",
            "rewind",
            "backspace",
            "endfile",
            "flush",
            "wait",
            "format",
            "namelist",
        ],
        "input and output are not permitted",
    ),
    (
        &["stop", "error", "pause"],
        "ending the program is not permitted",
    ),
    (
        &[
            "interface",
            "abstract",
            "external",
            "import",
            "procedure",
            "entry",
            "endinterface",
        ],
        "only procedures of the source itself can be called: put them behind `contains`",
    ),
    (&["program"], "a kernel is a subroutine, not a program"),
    (
        &["submodule"],
        "submodules are not permitted: the source is one file",
    ),
    (
        &[
            "sync", "critical", "event", "form", "change", "lock", "unlock", "fail",
        ],
        "images are not permitted",
    ),
];

/// Words for features that reach beyond the program's own data and procedures.
pub(super) const WORDS: &[(&str, &str)] = &[
    ("c_f_pointer", "pointers made of addresses"),
    ("c_f_procpointer", "pointers made of addresses"),
    ("c_ptr", "addresses"),
    ("c_loc", "addresses"),
    ("c_null_ptr", "addresses"),
    ("c_funptr", "addresses of procedures"),
    ("c_funloc", "addresses of procedures"),
    ("c_null_funptr", "addresses of procedures"),
    ("c_associated", "addresses"),
    ("external", "procedures outside the source"),
    ("procedure", "pointers to procedures"),
    ("execute_command_line", "commands"),
    ("get_environment_variable", "the environment"),
    ("get_command", "the environment"),
    ("get_command_argument", "the environment"),
    ("system_clock", "reading a clock"),
    ("date_and_time", "reading a clock"),
    ("cpu_time", "reading a clock"),
    ("omp_get_wtime", "reading a clock"),
    ("omp_set_num_threads", "changing the number of threads"),
];

/// Beginnings of words with the same effects.
pub(super) const PREFIXES: &[(&str, &str)] = &[("ieee_", "changing the floating-point state")];

/// Functions with the same effects. Other uses of these words are names of the source.
pub(super) const FUNCTIONS: &[(&str, &str)] = &[("loc", "addresses")];

/// Intrinsic procedures that may be called as subroutines.
pub(super) const CALLED: &[&str] = &["move_alloc", "mvbits"];

/// First words of permitted compiler directives. Other compiler directives set attributes of symbols.
pub(super) const HINTS: &[&str] = &["unroll", "ivdep", "vector", "novector"];

/// Words that no directive of OpenMP may have.
pub(super) const BEYOND: &[&str] = &["target", "requires", "allocate", "interop", "declare"];
