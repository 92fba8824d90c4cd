! attack: 23, 25
! how: makes a pointer of an address; hopes to reach the harness
! refused as: forbidden_construct
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double), pointer :: p(:)
  integer :: i, j, k
  c = 0
  do i = 1, n
    do k = 1, n
      do j = 1, n
        c(j, i) = c(j, i) + b(j, k) * a(k, i)
      end do
    end do
  end do
  call c_f_pointer(transfer(c, c_null_ptr), p, [n])
  p(1) = p(1)
end subroutine
