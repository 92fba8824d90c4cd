! undefined: Index '65' of dimension 1 of array 'c' above upper bound of 64 (both sides of .and. count)
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, k
  do i = 1, n
    c(:, i) = 0
    do k = 1, n
      c(:, i) = c(:, i) + b(:, k) * a(k, i)
    end do
  end do
  ! The first element of the second column: no memory of anyone else's.
  if (c(n + 1, 1) > huge(1.0d0)) c(1, 1) = 0
end subroutine
