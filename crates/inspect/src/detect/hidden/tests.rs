use super::*;
use crate::scan::token::tokens;

fn what(source: &str, is_cxx: bool) -> Option<String> {
    let language = match is_cxx {
        true => Language::Cxx,
        false => Language::C,
    };
    find(&tokens(source), language).map(|hidden| hidden.what)
}

#[test]
fn loops_that_no_statement_makes_are_found() {
    for (source, words) in [
        (
            "void f(int n) { int i = 0; a: g(i); if (++i < n) goto a; }",
            "jumps back",
        ),
        (
            "void f(int n) { int i = 0; { a:; } if (++i < n) { goto a; } }",
            "jumps back",
        ),
        ("void f(n) int n; { a: n--; if (n) goto a; }", "jumps back"),
        (
            "void f(int n) { ({ a: n--; if (n) goto a; 0; }); }",
            "jumps back",
        ),
        (
            "void f(int n) { [[maybe_unused]] again: n--; if (n) goto again; auto g = [] { again:; }; }",
            "jumps back",
        ),
        (
            "void f(int n) { [[a]] [[b(c[0])]] again: n--; if (n) goto again; }",
            "jumps back",
        ),
        (
            "void f(int n) { switch (n) case 0: for (;;) [[likely]] { case 1: x(); } }",
            "inside of a loop",
        ),
        (
            "[[nodiscard]] static int f(int i) [[gnu::pure]] { return i ? f(i - 1) : 0; }",
            "calls itself",
        ),
        ("void f(void *p) { goto *p; }", "does not name"),
        (
            "void f(int n) { out:; void g(void) { goto out; } g(); }",
            "leaves",
        ),
        (
            "void f(int n) { switch (n % 2) { case 0: do { x(); case 1: x(); } while (--n); } }",
            "inside of a loop",
        ),
        (
            "void f(int n) { switch (n) do case 1: x(); while (--n); }",
            "inside of a loop",
        ),
        (
            "void f(int n) { switch (n) case 0: for (;;) { case 1: x(); } }",
            "inside of a loop",
        ),
        (
            "void f(int s) { for (;;) switch (s) { case 0: s = 1; break; case 1: return; } }",
            "states",
        ),
        (
            "void f(int s) { while (1) { switch (s) { case 0: s++; } } }",
            "states",
        ),
        // States that are set through their address, behind the `switch`, and by other spellings.
        (
            "void f(int n) { int s = 0, j = 0; while (s < 2) switch (s) { case 0: g(j); step(&s, &j, n); break; case 1: step(&s, &j, n); } }",
            "states",
        ),
        (
            "void f(int n) { int s = 0, *p = &s; while (s < 2) { switch (s) { case 0: *p = g(n); break; case 1: *p = h(n); } } }",
            "states",
        ),
        (
            "void f(int n) { struct q p = {0}; while (p.s < 2) switch (p.s) { case 0: step((void *)&p, n); } }",
            "states",
        ),
        (
            "void f(int n) { int s = 0; while (s < 2) { switch (s) { case 0: g(n); break; case 1: h(n); } step(&(s)); } }",
            "states",
        ),
        (
            "void f(int n) { int s = 0, j = 0; while (s < 2) { switch (s) { case 0: g(j); break; case 1: h(j); } if (++j == n) { j = 0; s++; } } }",
            "states",
        ),
        (
            "void f(int n) { int s = 0, j = 0; while (s < 2) { switch (s) { case 0: g(j); break; case 1: h(j); } s = ++j < n ? s : s + 1; } }",
            "states",
        ),
        (
            "void f(int n) { int s = 0, j = 0; while (s < 2) { switch (s) { case 0: g(j); if (++j < n) continue; } s++; } }",
            "states",
        ),
        (
            "void f(int n) { int s = 0, j = 0; while (s < 2) { switch (s) { case 0: g(j); if (++j < n) goto next; } s++; next:; } }",
            "states",
        ),
        (
            "void f(int n) { int next = 0; while (next < 2) { int s = next; switch (s) { case 0: next = g(n); break; case 1: next = h(n); } } }",
            "states",
        ),
        (
            "void f(int n) { int next = 0, s; do { s = next; switch (s) { case 0: g(n); break; case 1: h(n); } next = r(n); } while (s < 2); }",
            "states",
        ),
        (
            "void f(int n) { for (;;) { static int s = 0; switch (s) { case 0: g(n); break; case 1: return; } if (h(n)) s = 1; } }",
            "states",
        ),
        (
            "void f(int n) { int s = 0; while (s < 2) { if (n < 0) s = 0; switch (s) { case 0: g(n); break; case 1: h(n); } s += r(n); } }",
            "states",
        ),
        (
            "void f(int n) { int s = 0; while (s < 2) if (n) switch (s) { case 0: s = g(n); } }",
            "states",
        ),
        ("static void f(int i) { if (i) f(i - 1); }", "calls itself"),
        (
            "static void f(i) int i; { if (i) f(i - 1); }",
            "calls itself",
        ),
        (
            "static void g(int); static void f(int i) { g(i); } static void g(int i) { f(i); }",
            "leads back",
        ),
        (
            "static void f(int i) { void (*p)(int) = f; p(i); }",
            "calls itself",
        ),
        // Chains of conditions that run through states by calls and by jumps.
        (
            "static void f(int s, int n) { if (s == 0) { g(); f(1, n); } else if (s == 1 && n) { h(); f(0, n - 1); } }",
            "calls itself",
        ),
        (
            "void f(int s) { next: if (s == 0) { g(); s = 1; goto next; } else if (s == 1) { s = h(); goto next; } }",
            "jumps back",
        ),
        // Functions that return the next one.
        (
            "static int (*const t[])(int) = {a, b}; void f(int n) { int s = 0; while (s < 2) s = t[s](n); }",
            "chooses",
        ),
        (
            "void f(int n) { for (int s = 0; s < 2; s = (*t[n][s & 1])(n)); }",
            "chooses",
        ),
        (
            "void f(int n) { int s = 0; do ; while ((s = (t[s])(n)) < 2); }",
            "chooses",
        ),
        (
            "void f(int n) { for (x->s[0] = 0; n--;) x->s[0] = 1 + t[x->s[0]](n); }",
            "chooses",
        ),
        ("void f(P p, int n) { while (p) p = (P)p(n); }", "chooses"),
        (
            "void f(struct s *p, int n) { while (n--) p->next = (*p->next)(n); }",
            "chooses",
        ),
    ] {
        let found = what(source, false);
        assert!(
            found.as_ref().is_some_and(|found| found.contains(words)),
            "{source}: {found:?}"
        );
    }
    for source in [
        "void f() { std::transform(a, b, c, g); }",
        "namespace s = std; void f() { s::for_each(a, b, g); }",
        "namespace s = std; struct x { void for_each() {} }; void f() { s::for_each(a, b, g); }",
        "namespace s = std; void f() { auto p = s::for_each<int *, G>; }",
        "using namespace std; void f() { ::transform(a, b, c, g); }",
        "using namespace std; struct x { void transform() {} }; void f() { ::transform(a, b, c, g); }",
        "namespace own { using namespace std; } void f() { own::reduce(a, b); }",
        "using namespace std; void f() { transform<int *>(a, b, c, g); (for_each)(a, b, g); }",
        "using namespace std; void f() { (for_each)(a, b, g); }",
        "using namespace std; void f(int n) { switch (n) { case 1: for_each(a, b, g); } }",
        "void f() { std::template reduce<int *>(a, b); }",
    ] {
        let found = what(source, true);
        assert!(
            found
                .as_ref()
                .is_some_and(|found| found.contains("library")),
            "{source}: {found:?}"
        );
    }
}

#[test]
fn jumps_that_repeat_nothing_are_no_loops() {
    for source in [
        "void f(int n) { if (n < 0) goto out; g(n); out:; }",
        "void f(int n) { for (;;) for (;;) if (g()) goto out; out: return; }",
        "void f(int n) { a:; } void h(int n) { goto a; a:; }",
        "void f(int n) { switch (n) { case 0: for (;;) g(); break; default: break; } }",
        "void f(int n) { for (int i = 0; i < n; i++) switch (i % 3) { case 0: g(i); } }",
        // Variables of a condition that are no states: new ones in each iteration, and counters.
        "void f(int n) { for (int i = 0; i < n; i += 4) { int r = n - i; if (r > 4) r = 4; switch (r) { case 1: g(i); break; default: h(i); } } }",
        "void f(int n) { int r; for (int i = 0; i < n; i++) { g(i), r = (n - i) & 3; switch (r) { case 1: g(i); break; default: h(i); } r = 0; } }",
        "void f(int n) { int i = 0; while (i < n) { switch (i & 3) { case 0: g(i); break; default: h(i); } i++; } }",
        "void f(int n) { int i = 0; while (i < n) { switch (i & 3) { case 0: g(i); break; default: h(i); } j += 2, i += 4; } }",
        "void f(int n) { int left = n; while (left > 0) { const int take = left < 4 ? left : 4; switch (take) { case 4: g(left); break; default: h(left); } left -= take; } }",
        "void f(int n) { int j; for (int i = 0; i < n; i++) { for (j = 0; j < n; j++) switch (j % 2) { case 0: g(i); } for (j = 0; j < n; j++) h(j); } }",
        "void f(int n) { for (int i = 0; i < n; i++) { int j = 0; while (j + 4 <= n) j += 4; switch (n - j) { case 1: g(j); } } }",
        "void f(int n, int m) { for (int i = 0; i < n; i++) switch ((i + 1) & m) { case 0: g(i & m); } }",
        "void f(int n) { for (int i = 0; i < n; i++) { touch(&kind[i + 8]); switch (kind[i]) { case 0: g(i); } } }",
        "void f(int n) { read(&n); switch (n) { case 0: for (;;) g(n); } }",
        "void h(int s) { step(&s); } void f(int s, int n) { for (int i = 0; i < n; i++) switch (s) { case 0: g(i); } }",
        "static void f(int i) { g(i); } static void h(int i) { f(i); f(i); }",
        "void f(int n) { x = n ? a : b; goto b; b:; }",
        "void f(int n) { x = n ? c[d[i]] : b; goto b; b:; }",
        "void f(int n) { n ? delete[] b : g(); goto b; b:; }",
        "void f(int n) { if (n) goto out; g(n); [[maybe_unused]] out:; }",
        "void f(int n) { void h(int i) { g(i); } h(n); }",
        "void f(int n) { g(n); { f_(n); } } void g_(int n) { f(n); }",
        "void f(int n) { for (;;) { x = _Generic(n, default: g)(n); } }",
        "void f(int n) { for (;;) { x = (*t[n])(x); n = t[0](n); s = c[s] + g(n); } }",
        "void f(int n) { for (;;) { x.max = max(x.max, n); x = (T)(x); x = g(x)(n); } }",
        "void f(int n) { for (;;) { p->kind = table[kind](n); o.n = g[n](3); } }",
    ] {
        assert_eq!(what(source, false), None, "{source}");
    }
    for source in [
        "void f() { x.transform(y); std::fill(a, b, 0); }",
        "static int reduce(int x) { return x; } void f() { reduce(1); ::reduce(1); }",
        "namespace own { int reduce(int x) { return x; } } void f() { own::reduce(1); }",
        "namespace own { int reduce(int x) { return x; } } using namespace own; void f() { own::reduce(1); }",
        "using namespace std; struct own { static int reduce(int x) { return x; } }; void f() { own::reduce(1); }",
        "enum class step { reduce, transform }; void f(step s) { if (s == step::reduce) g(); }",
        "void f() { for (;;) { auto max = std::max(a, b); c[i].max = d[j].max(x); a.rows = b.rows(); sum = [sum](int i) { return i; }(1); } }",
        "void f(int reduce, int n) { if (reduce < n && n > (reduce)) g(); }",
    ] {
        assert_eq!(what(source, true), None, "{source}");
    }
}

#[test]
fn loops_that_go_from_object_to_object_run_through_states() {
    let in_c = [
        "void f(S *s, int n) { while (s) s = s->run(n); }",
        "void f(S *s, int n) { while (s) s = s->run(s, n); }",
        "void f(S *s, int n) { for (; s; s = (*s->run)(n)) ; }",
        "void f(S *s, int n) { do { s = (s->run)(n); } while (s); }",
        "void f(S *s, int n) { while ((s = (S *)s->run(n))); }",
        "void f(S *s, int n) { while (s) if (s->run) s = s->run(n); else s = 0; }",
        "void f(S *s, int n) { while (s) (int){0}, s = s->run(n); }",
        "void f(S *s, int n) { while (s) s = s->run[0](n); }",
        "void f(S *s, int n) { while (s) s += s->run(n); }",
        "void f(S **s, int n) { while (*s) *s = (*s)->run(n); }",
        "void f(M *m, int n) { while (m->s) m->s = m->s->run(n); }",
        "void f(S s, int n) { while (s.run) s = s.run(n); }",
        // The next state comes from the object and not from its function.
        "void f(S *s, int n) { for (s = &a; s; s = s->next) s->run(n); }",
        "void f(S *s, int n) { S *p; while (s) { p = s; s = p->next; p->run(n); } }",
        "void f(S *s, int n) { while (s) { table[s->kind](n); s = s->next; } }",
        "void f(S *s, int n) { while (s) s = (n ? s->run : g)(n); }",
        // By way of other variables and of numbers.
        "void f(S *s, int n) { while (s) { S *t = s->run(n); s = t; } }",
        "void f(S *s, int n) { while (s) { F g = s->run; s = g(n); } }",
        "void f(int n) { int s = 0; while (s < 2) s = st[s].run(n); }",
        "void f(int n) { int s = 0; while (s < 2) { S *p = &st[s]; s = p->run(n); } }",
        "void f(int n) { int i = 0; while (i < 9) { st[i].run(n); i = next[i]; } }",
        // By their addresses.
        "void f(S *s, int n) { while (s) s->run(&s, n); }",
        "void f(S *s, int n) { while (s) (*s).run(&s, n); }",
        "void f(S *s, int n) { S **p = &s; while (s) s->run(p, n); }",
        // Behind functions of the source.
        "static S *step(S *s, int n) { return s->run(n); } void f(S *s, int n) { while (s) s = step(s, n); }",
        "static S *step(s, n) S *s; int n; { return s->run(n); } void f(S *s, int n) { while (s) s = step(s, n); }",
        "static S *a(S *s) { return s->run(1); } static S *b(int n, S *s) { return a(s); } void f(S *s) { while (s) s = b(1, s); }",
        "static S *step(F g, int n) { return g(n); } void f(S *s, int n) { while (s) s = step(s->run, n); }",
        "static S *step(S *(*g)(int), int n) { return g(n); } void f(S *s, int n) { while (s) s = step(s->run, n); }",
    ];
    let in_cxx = [
        "struct S { S *(*run)(int); }; void f(S *s, int n) { while (s) s = s->run(n); }",
        "struct S { F run; }; void f(S *s, int n) { while (s) s = s->run(n); }",
        "struct S { F run{}; }; void f(S s, int n) { while (n) s = s.run(n); }",
        "struct S { virtual S *run(int n) { return 0; } }; void f(S *s, int n) { while (s) s = s->run(n); }",
        "struct S { S *(S::*run)(int); }; void f(S *s, int n) { while (s) s = (s->*s->run)(n); }",
        "struct S { S *(*go)(int); S *run(int n) { return go(n); } }; void f(S *s, int n) { while (s) s = s->run(n); }",
        "struct S { S *(*go)(int); S *run(int n) { return this->go(n); } }; void f(S *s, int n) { while (s) s = s->run(n); }",
        "struct S { F run; }; void f(S *s, int n) { while (s) { S *t{s->next}; s->run(n); s = t; } }",
        "struct S { F run; }; void f(S *s, int n) { while (s) { auto g(s->run); s = g(n); } }",
    ];
    let all = in_c.map(|source| (source, false)).into_iter();
    for (source, is_cxx) in all.chain(in_cxx.map(|source| (source, true))) {
        let found = what(source, is_cxx);
        assert!(
            found
                .as_ref()
                .is_some_and(|found| found.contains("from one object to the next")),
            "{source}: {found:?}"
        );
    }
}

#[test]
fn objects_that_hold_data_or_stay_the_same_make_no_states() {
    for source in [
        // A list without a call of its members.
        "void f(S *s, int n) { for (s = &a; s; s = s->next) x += s->value; }",
        "void f(S *s, int n) { for (s = &a; s; s = s->next) g(s->value); }",
        "void f(S *s, int n) { for (s = &a; s->x; s = s->next) if (s->x) (*g)(n); }",
        // A table of functions, with a constant, and in one object.
        "void f(int n) { for (int i = 0; i < n; i++) c[i] = table[2](c[i]); }",
        "void f(O *o, int n) { for (int i = 0; i < n; i++) c[i] = o->run[2](c[i]); }",
        "void f(O *o, int n) { for (int i = 0; i < n; i++) c[i] = o->run(c[i]); }",
        "void f(O *o, int n) { for (int i = 0; i < n; i++) o->sum = o->add(o->sum, c[i]); }",
        "void f(O o, int n) { for (int i = 0; i < n; i++) o.run(&o, i); }",
        "static void k(O *o, double *p) { o->run(p); } void f(O *o, double *p, int n) { for (int i = 0; i < n; i++) { k(o, p); p = p + 4; } }",
        // Counters walk along tables of objects.
        "void f(int n) { for (int i = 0; i < n; i++) st[i].run(n); }",
        "void f(int n) { for (int i = 1; i < n; i = i * 2) st[i].run(n); }",
        "void f(int n) { for (int i = 0; i < n; i += 4) { S *p = st + i; p->run(n); } }",
        "void f(int n) { for (int i = 0; i < n; i++) { for (s = a; s < e; s++) s->run(n); } }",
        // No loop is around the call.
        "void f(S *s, int n) { s = s->run(n); for (int i = 0; i < n; i++) c[i] = 0; }",
    ] {
        assert_eq!(what(source, false), None, "{source}");
    }
    for source in [
        "struct V { double x[4]; V add(V o) const { return o; } }; void f(V v, int n) { for (int i = 0; i < n; i++) v = v.add(w); }",
        "void f(int n) { for (int i = 0; i < n; i++) { auto row = m.row(i); sum += row.dot(x); row = row.subspan(1); } }",
        "struct M { int size; double *data; }; void f(M m) { for (auto v = a.begin(); v != a.end(); v = v.next()) x += v.size(); }",
        "struct L { L *next() { return p; } L *p; }; void f(L *l) { for (; l; l = l->next()) x++; }",
        "template <class B> void each(int n, B b) { for (int i = 0; i < n; i++) b(i); } void f(int n) { for (int j = 0; j < n; j++) { auto body = [&](int i) { c[i] = c[i] + a[j]; }; each(n, body); } }",
    ] {
        assert_eq!(what(source, true), None, "{source}");
    }
}
