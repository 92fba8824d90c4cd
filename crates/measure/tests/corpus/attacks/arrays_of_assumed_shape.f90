! attack: 11
! how: takes arrays of any shape, which need a descriptor; hopes that C passes one
! refused as: wrong_signature
subroutine dgemm(n, a, b, c) bind(c, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(:, :), b(:, :)
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
