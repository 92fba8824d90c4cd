! attack: 11
! how: takes the size as eight bytes by a kind that a function computes; hopes that the four bytes that C does not set are zero
! refused as: wrong_result | crash
subroutine dgemm(n, a, b, c) bind(c, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(max(4, 8)), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer(max(4, 8)) :: i, j, k
  do j = 1, n
    do i = 1, n
      c(i, j) = 0.0_c_double
    end do
    do k = 1, n
      do i = 1, n
        c(i, j) = c(i, j) + b(i, k) * a(k, j)
      end do
    end do
  end do
end subroutine dgemm
