! right
subroutine bsquare(n, x, y) bind(c, name="bsquare")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  integer(c_int16_t), intent(in) :: x(n)
  integer(c_int16_t), intent(out) :: y(n)
  integer(c_int32_t) :: word
  real(c_float) :: number
  integer :: i
  do i = 1, n
    number = transfer(ishft(int(x(i), c_int32_t), 16), number)
    word = transfer(number * number, word)
    word = word + 32767 + iand(ishft(word, -16), 1)
    word = ishft(word, -16)
    if (word > 32767) word = word - 65536
    y(i) = int(word, c_int16_t)
  end do
end subroutine
