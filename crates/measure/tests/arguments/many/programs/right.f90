! right
subroutine many(a, p, x, q, b, r, s, c, t, y, u, v, n, w, d, out) bind(c, name="many")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: a, b, c, n, d
  real(c_double), value :: p, r, s, u, w
  real(c_float), value :: q, t, v
  real(c_double), intent(in) :: x(n), y(n)
  real(c_double), intent(out) :: out(n)
  real(c_double) :: fixed
  fixed = a + 2d0 * b + 3d0 * c + 5d0 * d
  fixed = fixed + 7 * r + 11 * s + 13 * real(t, c_double) + 17 * u + 19 * real(v, c_double) + 23 * w
  out = p * x + (q * y + fixed)
end subroutine
