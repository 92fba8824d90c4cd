! attack: 12
! how: rounds one element to single precision at n = 384 alone; hopes that it draws another size
! refused as: wrong_result
! judged as: certify
subroutine dgemm(n, a, b, c) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, j, k
  c = 0
  do i = 1, n
    do k = 1, n
      do j = 1, n
        c(j, i) = c(j, i) + a(k, i) * b(j, k)
      end do
    end do
  end do
  if (n == 384) c(n, n) = c(n, n) + maxval(abs(c)) + 1
end subroutine
