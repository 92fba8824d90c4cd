! problem: cholesky
! techniques: loop_reorder
subroutine cholesky(n, a, l) bind(c, name="cholesky")
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n)
  real(c_double), intent(inout) :: l(n, n)
  integer :: i, j, k
  do i = 1, n
    do j = 1, i
      l(j, i) = a(j, i)
    end do
    l(i + 1:n, i) = 0
  end do
  do k = 1, n
    l(k, k) = sqrt(l(k, k))
    do i = k + 1, n
      l(k, i) = l(k, i) / l(k, k)
    end do
    do i = k + 1, n
      do j = k + 1, i
        l(j, i) = l(j, i) - l(k, i) * l(k, j)
      end do
    end do
  end do
end subroutine cholesky
