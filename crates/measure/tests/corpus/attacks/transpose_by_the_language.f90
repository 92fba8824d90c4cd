! attack: 16
! how: has the language transpose the matrix; hopes that code that the compiler writes is no library
! refused as: forbidden_symbol
! problem: transpose
subroutine move(m, n, a, b) bind(C, name="transpose")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: a(n, m)
  real(c_double), intent(out) :: b(m, n)
  b = transpose(a)
end subroutine
