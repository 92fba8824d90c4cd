! right
subroutine axpby(n, alpha, x, beta, y) bind(c, name="axpby")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), value :: alpha
  real(c_double), intent(in) :: x(n)
  real(c_float), value :: beta
  real(c_double), intent(inout) :: y(n)
  y = alpha * x + beta * y
end subroutine
