! problem: spmv
! techniques: unroll+partial_sums
subroutine spmv(n, m, start, column, value, x, y) bind(c, name="spmv")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n, m
  integer(c_int), intent(in) :: start(0:n), column(0:8*n-1)
  real(c_double), intent(in) :: value(0:8*n-1), x(0:m-1)
  real(c_double), intent(out) :: y(0:n-1)
  integer :: i, k, last
  real(c_double) :: s1, s2
  do i = 0, n - 1
    s1 = 0
    s2 = 0
    last = start(i + 1) - 1
    do k = start(i), last - 1, 2
      s1 = s1 + value(k) * x(column(k))
      s2 = s2 + value(k + 1) * x(column(k + 1))
    end do
    if (mod(last + 1 - start(i), 2) == 1) s1 = s1 + value(last) * x(column(last))
    y(i) = s1 + s2
  end do
end subroutine spmv
