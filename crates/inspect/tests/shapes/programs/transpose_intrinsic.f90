! problem: transpose
! techniques: cache_blocking
subroutine transpose(m, n, a, b) bind(c, name="transpose")
  use iso_c_binding
  implicit none
  integer(c_int), value :: m, n
  real(c_double), intent(in) :: a(0:n-1, 0:m-1)
  real(c_double), intent(out) :: b(0:m-1, 0:n-1)
  integer, parameter :: s = 32
  integer :: i, j, ii, jj
  do ii = 0, m - 1, s
    do jj = 0, n - 1, s
      do i = ii, min(ii + s, m) - 1
        do j = jj, min(jj + s, n) - 1
          b(i, j) = a(j, i)
        end do
      end do
    end do
  end do
end subroutine transpose
