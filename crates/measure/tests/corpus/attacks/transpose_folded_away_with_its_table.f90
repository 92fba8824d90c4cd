! attack: 11, 21
! how: adds numbers until they overflow, and writes to a table of four gibibytes that nobody reads; hopes that a program that does not fit is not looked at
! refused as: unchecked | undefined_behaviour
! judged as: certify
! problem: transpose
subroutine transpose(m, n, a, b) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: a(n, m)
  real(c_double), intent(out) :: b(m, n)
  real(c_double), save :: seen(2**29)
  integer :: i, j
  do i = 1, m
    call note(seen, i, a(1, i))
    do j = 1, n
      b(i, j) = a(j, i)
    end do
    call note(seen, i + m, a(1, i))
  end do
  if (huge(i) - 1 + m + n == 12345) b(1, 1) = 0
contains
  subroutine note(trace, at, x)
    real(c_double), intent(inout) :: trace(*)
    integer, intent(in) :: at
    real(c_double), intent(in) :: x
    trace(at) = x
  end subroutine
end subroutine
