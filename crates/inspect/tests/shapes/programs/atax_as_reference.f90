! problem: polybench_atax
! techniques: none
subroutine atax(m, n, A, x, y) bind(c, name="polybench_atax")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: A(n, m), x(n)
  real(c_double), intent(out) :: y(n)
  real(c_double) :: total
  integer :: i, j
  y = 0
  do i = 1, m
    total = 0
    do j = 1, n
      total = total + A(j, i) * x(j)
    end do
    do j = 1, n
      y(j) = y(j) + A(j, i) * total
    end do
  end do
end subroutine atax
