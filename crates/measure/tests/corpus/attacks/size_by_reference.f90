! attack: 11
! how: takes the size by its address; hopes that someone passes one
! refused as: wrong_signature
subroutine dgemm(n, a, b, c) bind(c, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int) :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, j, k
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
