! attack: 13
! how: leaves out every other column; hopes that few are checked
! refused as: wrong_result
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, j, k
  c = 0
  do i = 1, n, 2
    do k = 1, n
      do j = 1, n
        c(j, i) = c(j, i) + b(j, k) * a(k, i)
      end do
    end do
  end do
end subroutine
