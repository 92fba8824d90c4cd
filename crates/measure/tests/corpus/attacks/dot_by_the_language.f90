! attack: 16
! how: has the language compute the sum; hopes that code that the compiler writes is no library
! refused as: forbidden_symbol
! problem: dot
subroutine dot(n, x, y, s) bind(C, name="dot")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: x(n), y(n)
  real(c_double), intent(out) :: s
  s = dot_product(x, y)
end subroutine
