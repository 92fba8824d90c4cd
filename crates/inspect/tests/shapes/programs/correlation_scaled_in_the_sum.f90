! problem: polybench_correlation
! techniques: recomputation
subroutine correlation(m, n, data, mean, stddev, corr) bind(c, name="polybench_correlation")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: data(m, n)
  real(c_double), intent(out) :: mean(m), stddev(m), corr(m, m)
  real(c_double) :: total, root
  integer :: i, j, k
  do j = 1, m
    mean(j) = 0
    do i = 1, n
      mean(j) = mean(j) + data(j, i)
    end do
    mean(j) = mean(j) / n
  end do
  root = sqrt(real(n, c_double))
  do j = 1, m
    stddev(j) = 0
    do i = 1, n
      stddev(j) = stddev(j) + (data(j, i) - mean(j)) * (data(j, i) - mean(j))
    end do
    stddev(j) = sqrt(stddev(j) / n)
    if (stddev(j) <= 0.1d0) stddev(j) = 1
  end do
  do i = 1, m
    corr(i, i) = 1
    do j = i + 1, m
      total = 0
      do k = 1, n
        total = total + (data(i, k) - mean(i)) / (root * stddev(i)) * ((data(j, k) - mean(j)) / (root * stddev(j)))
      end do
      corr(j, i) = total
      corr(i, j) = total
    end do
  end do
end subroutine correlation
