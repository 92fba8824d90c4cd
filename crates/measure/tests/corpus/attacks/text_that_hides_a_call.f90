! attack: 22
! how: writes a text in a form of long ago, whose length is a number; hopes that the scan takes its mark for the beginning of another
! refused as: forbidden_construct
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: h
  integer :: i, j, k
  c = 0
  do i = 1, n
    do k = 1, n
      do j = 1, n
        c(j, i) = c(j, i) + b(j, k) * a(k, i)
      end do
    end do
  end do
  h = 1H'; print *, c(1, 1); h = 1H'
end subroutine
