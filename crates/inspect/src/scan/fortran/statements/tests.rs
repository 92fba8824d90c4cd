//! Sources that pass the check, and sources that do not.

use flopsmith_problem::Language;

use super::super::lines;
use super::*;
use crate::page;

fn look(source: &str, language: Language) -> Result<(), Failure> {
    let found = lines::split(source, language)?;
    check(&found.statements)?;
    check_directives(&found.directives)
}

#[test]
fn statements_that_reach_beyond_a_kernel_are_refused() {
    for (source, words) in [
        ("include 'x.inc'", "`include`"),
        ("inc&\n&lude 'x'", "`include`"),
        ("use ieee_arithmetic", "ieee_"),
        ("use, intrinsic :: iso_varying_string", "may not be used"),
        ("use other, only: x", "`other` may not be used"),
        ("use :: mpi", "`mpi` may not be used"),
        ("print *, x", "input and output"),
        ("PRINT '(a)', x", "input and output"),
        ("10 write(*,*) x", "input and output"),
        ("if (x > 0) write(*,*) x", "input and output"),
        ("x = 1; write(*,*) x", "input and output"),
        ("x = 1; &\nwrite(*,*) x", "input and output"),
        ("wr&\n&ite(*,*) x", "input and output"),
        ("!$ print *, x", "input and output"),
        ("s = 'a''; x = '; print *, s", "input and output"),
        ("open(unit=1, file='x')", "input and output"),
        ("inquire(file='x', exist=y)", "input and output"),
        ("end file 5", "`end file`"),
        ("stop 1", "ending"),
        ("error stop", "ending"),
        ("call system('x')", "`system` is not one of"),
        ("call exit(0)", "`exit` is not one of"),
        ("call SYSTEM ('x')", "`system` is not one of"),
        ("call&\nsystem('x')", "`system` is not one of"),
        ("if (a) call execute_command_line('x')", "commands"),
        ("call get_environment_variable('x', y)", "environment"),
        ("call system_clock(t)", "clock"),
        ("t = omp_get_wtime()", "clock"),
        ("interface\nend interface", "`contains`"),
        ("external f", "outside the source"),
        ("real, external :: f", "outside the source"),
        ("procedure(f), pointer :: p", "pointers to procedures"),
        ("type(c_ptr), value :: p", "addresses"),
        ("call c_f_pointer(p, a, [n])", "made of addresses"),
        ("type(c_funptr) :: f", "procedures"),
        ("real, pointer :: p(:)\np = transfer(1, p)", "`transfer`"),
        ("integer, bind(c, name='environ') :: e", "`bind`"),
        ("i = loc(x)", "`loc`"),
        ("program p\nend program", "subroutine"),
        ("block data b", "block data"),
        ("module procedure f", "`procedure`"),
        ("sync all", "images"),
        ("foo bar", "`foo`"),
        ("if (a) if (b) x = 1", "`if`"),
        ("!$omp target map(x)", "target"),
        ("!GCC$ attributes stdcall :: f", "attributes"),
        ("!GCC$ builtin (sin) attributes simd", "builtin"),
    ] {
        let found = look(source, Language::Fortran);
        assert!(
            matches!(&found, Err(Failure::Candidate { detail, .. }) if detail.contains(words)),
            "{source}: {found:?}"
        );
    }
    for source in [
        "      P R I N T *, x",
        "      CALLSYSTEM('x')",
        "      CALL SYS\n     &TEM('x')",
        "      IF (X) C ALL SYSTEM('x')",
        "      R EAD(5,*) X",
        "      OPEN(5)\n",
        "      INC\n     1LUDE 'x'",
        "c$    print *, x",
    ] {
        let found = look(source, Language::Fortran77);
        assert!(found.is_err(), "{source}");
    }
}

#[test]
fn statements_of_ordinary_kernels_pass() {
    let source = "module kernels
  use, intrinsic :: iso_c_binding, only: c_int, dp => c_double
  use iso_fortran_env
  implicit none
  private
  integer, parameter :: nb = 32
  type :: tile
    real(dp) :: a(4, 4)
  end type tile
contains
  pure function dot(n, x, y) result(s)
    integer, intent(in) :: n
    real(dp), intent(in), contiguous :: x(:), y(:)
    real(dp) :: s
    s = sum(x * y)
  end function dot
  real(dp) function twice(x)
    real(dp), intent(in) :: x
    twice = 2 * x
  end function
  subroutine dgemm(n, a, b, c) bind(C, name=\"dgemm\")
    integer(c_int), value :: n
    real(dp), intent(in) :: a(n, n), b(n, n)
    real(dp), intent(out) :: c(n, n)
    real(dp), allocatable :: buf(:, :)
    integer :: i, j, k, read, print
    allocate(buf(n, n), stat=i)
    if (i /= 0) return
    read = 3; print = read
    c = 0
    outer: do j = 1, n
      do 10 k = 1, n
        if (k < 0) cycle outer
10    continue
      do concurrent (i = 1:n)
        c(i, j) = c(i, j) + dot(n, a(i, :), b(:, j)) * 1.0d0
      end do
      do while (.false.)
        exit
      enddo
    end do outer
    where (c > 0) c = c
    where (c > 0)
      c = c
    elsewhere
      c = 0
    end where
    forall (i = 1:n) c(i, i) = c(i, i)
    select case (n)
    case (1)
      call fill(n, c)
    case default
      continue
    end select
    associate (x => c(1, 1))
      x = x
    end associate
    block
      real(dp) :: t
      t = transfer(1_8, t)
    end block
    if (n == 1) then
      c(1, 1) = 0
    else if (n == 2) then
      c(1, 1) = 1
    elseif (n == 3) then
      c(1, 1) = 2
    else
      c(1, 1) = 3
    end if
    !$omp parallel do private(k) &
    !$omp& schedule(static)
    do j = 1, n
      c(:, j) = [(real(k, dp), k = 1, n)]
    end do
    !$omp end parallel do
    !GCC$ unroll 4
    do j = 1, n; c(1, j) = merge(1.d0, 'a' == \"it's\", .true.); end do
    deallocate(buf)
  end subroutine dgemm
  subroutine fill(n, c)
    integer, intent(in) :: n
    real(dp), intent(out) :: c(n, n)
    c = 1
  end subroutine fill
end module kernels
";
    // A user-defined type and `transfer` are each permitted alone, but not together.
    let plain = source.replace("      t = transfer(1_8, t)\n", "");
    let found = look(&plain, Language::Fortran);
    assert!(found.is_ok(), "{found:?}");
    assert!(look(source, Language::Fortran).is_err());
    let fixed = "C     in columns
      SUBROUTINE DGEMM(N, A, B, C) BIND(C, NAME='dgemm')
      USE ISO_C_BINDING
      INTEGER(C_INT), VALUE :: N
      REAL(C_DOUBLE) A(N,N), B(N,N), C(N,N)
      DOUBLE PRECISION S
      DO 20 J = 1, N
        DO 10 I = 1, N
          S = 0
          DO 5 K = 1, N
    5     S = S + A(I,K)
     &          * B(K,J)
          C(I,J) = S
   10   CONTINUE
   20 CONTINUE
      IF (N) 30, 30, 30
   30 GO TO 40
   40 RETURN
      END
";
    let found = look(fixed, Language::Fortran77);
    assert!(found.is_ok(), "{found:?}");
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for open in ["if (a) ", "where (a) ", "x(", "a%"] {
        let source = format!("{}y = 1", open.repeat(20));
        let long: String = std::iter::repeat_n(open, 20_000)
            .collect::<Vec<_>>()
            .join("&\n&");
        let _ = look(&source, Language::Fortran);
        let _ = look(&format!("{long}y = 1"), Language::Fortran);
    }
}

#[test]
fn the_page_names_each_statement_and_word_of_the_lists() {
    let of = |words: &[&'static str]| page::names(words.iter().copied());
    page::compare(
        "Permitted statements of Fortran",
        &[
            of(DECLARATIONS),
            of(HEADS),
            of(PLAIN),
            page::prefixed("end ", ENDS.iter().copied()),
            of(&["if", "where", "forall", "elsewhere", "block"]),
            of(&["end", "module", "use", "call"]),
        ],
    );
    let refused = REFUSED.iter().flat_map(|(words, why)| {
        let words = words.iter();
        words.map(move |word| ((*word).to_owned(), *why))
    });
    page::compare(
        "Refused statements of Fortran",
        &[refused.collect(), of(&["include", "block data", "bind"])],
    );
    page::compare(
        "Refused words of Fortran",
        &[
            page::with_reasons(WORDS),
            page::beginnings_with_reasons(PREFIXES),
            page::with_reasons(FUNCTIONS),
            of(&["transfer"]),
        ],
    );
    let hints = HINTS.iter().map(|hint| format!("!GCC$ {hint}"));
    let hints: Vec<String> = hints.collect();
    page::compare(
        "Permitted directives of Fortran",
        &[
            page::names(hints.iter().map(String::as_str)),
            of(&["!$omp"]),
        ],
    );
    page::compare(
        "Refused directives of Fortran",
        &[
            page::prefixed("!$omp ", BEYOND.iter().copied()),
            of(&["!GCC$"]),
        ],
    );
}

#[test]
fn intrinsic_procedures_and_modules_of_the_page_are_those_of_the_lists() {
    page::compare(
        "Permitted procedures and modules of Fortran",
        &[
            page::names(CALLED.iter().copied()),
            page::names(FORTRAN_MODULES.iter().copied()),
        ],
    );
}
