! problem: polybench_covariance
! techniques: none
subroutine covariance(m, n, data, mean, cov) bind(c, name="polybench_covariance")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: data(m, n)
  real(c_double), intent(out) :: mean(m), cov(m, m)
  real(c_double) :: total
  integer :: i, j, k
  do j = 1, m
    mean(j) = 0
    do i = 1, n
      mean(j) = mean(j) + data(j, i)
    end do
    mean(j) = mean(j) / n
  end do
  do i = 1, m
    do j = i, m
      total = 0
      do k = 1, n
        total = total + data(i, k) * data(j, k)
      end do
      total = (total - n * mean(i) * mean(j)) / (n - 1)
      cov(j, i) = total
      cov(i, j) = total
    end do
  end do
end subroutine covariance
