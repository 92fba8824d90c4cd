! problem: polybench_gesummv
! techniques: fission
subroutine gesummv(n, alpha, beta, A, B, x, y) bind(c, name="polybench_gesummv")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), value :: alpha, beta
  real(c_double), intent(in) :: A(n, n), B(n, n), x(n)
  real(c_double), intent(out) :: y(n)
  integer :: i, j
  real(c_double) :: first, second
  do i = 1, n
    first = 0
    do j = 1, n
      first = first + A(j, i) * x(j)
    end do
    second = 0
    do j = 1, n
      second = second + B(j, i) * x(j)
    end do
    y(i) = alpha * first + beta * second
  end do
end subroutine gesummv
