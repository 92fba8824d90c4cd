! attack: 26
! how: asks for 600 MB when it is loaded; hopes that memory that is not touched does not count
! refused as: memory_limit
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double), save :: scratch(75000000)
  integer :: i, j, k
  do j = 1, n
    do i = 1, n
      scratch(i) = 0
    end do
    do k = 1, n
      do i = 1, n
        scratch(i) = scratch(i) + b(i, k) * a(k, j)
      end do
    end do
    do i = 1, n
      c(i, j) = scratch(i)
    end do
  end do
end subroutine
