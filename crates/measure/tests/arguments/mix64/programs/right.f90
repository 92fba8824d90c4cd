! right
subroutine mix64(n, x, y) bind(c, name="mix64")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  integer(c_int64_t), intent(in) :: x(n)
  integer(c_int64_t), intent(out) :: y(n)
  integer :: i
  do i = 1, n
    y(i) = x(i) + shifta(x(n + 1 - i), 1)
  end do
end subroutine
