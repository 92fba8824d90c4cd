! problem: dgemv
! techniques: none
subroutine dgemv(m, n, a, x, y) bind(c, name="dgemv")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: a(n, m), x(n)
  real(c_double), intent(out) :: y(m)
  integer :: i
  do i = 1, m
    y(i) = sum(a(:, i) * x)
  end do
end subroutine dgemv
