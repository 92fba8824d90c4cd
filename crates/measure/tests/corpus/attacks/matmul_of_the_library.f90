! attack: 16
! how: leaves the work to the library of the language; hopes that its kernel counts as the program's own
! refused as: forbidden_symbol
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  c = matmul(b, a)
end subroutine
