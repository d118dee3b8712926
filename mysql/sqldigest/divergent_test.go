package sqldigest

import (
	"bytes"
	"testing"
)

// divergent is the reference definition for Divergent, on a complete text.
func divergent(sql []byte) bool {
	for {
		_, after, ok := bytes.Cut(sql, []byte("/*"))
		if !ok {
			return false
		}
		sql = after
		if bytes.HasPrefix(after, []byte("M!")) {
			return true
		}
		body, ok := bytes.CutPrefix(after, []byte("!"))
		if !ok {
			continue
		}
		n := len(body) - len(bytes.TrimLeft(body, "0123456789"))
		if n != 0 && (n != 5 || string(body[:n]) > "50699") {
			return true
		}
		body, _, _ = bytes.Cut(body, []byte("*/"))
		if bytes.Contains(body, []byte("/*")) {
			return true
		}
	}
}

func TestDivergent(t *testing.T) {
	for sql, want := range map[string]bool{
		"select 1":                                    false,
		"select 1 / 2 /* plain */ * 3":                false,
		"select /*+ hint */ 1":                        false,
		"/*! select 1 */":                             false,
		"/*!40101 SET NAMES utf8 */":                  false,
		"/*!50699 select 1 */":                        false,
		"/*!50700 select 1 */":                        true,
		"/*!99999 select 1 */":                        true,
		"/*!080000 select 1 */":                       true,
		"/*!500001 select 1":                          true,
		"/*!123 select 1 */":                          true,
		"/*M! select 1 */":                            true,
		"/*M!100100 select 1 */":                      true,
		"/*Mx select 1 */":                            false,
		"/*!40000 select /*!50000 1 */ */":            true,
		"/*!40000 select /* x */ 1 */":                true,
		"/*!40000 2 **/ /* x */":                      false,
		"/*! 4 /*/ /* x */":                           false,
		"/*!/*":                                       true,
		"/*!*/*!80000*/":                              true,
		"/**/*!80000*/":                               true,
		"select '/*!99999 x'":                         true,
		"select /* a */ 1 /*!40000 + 1 */ /*!80000*/": true,
		"/*": false, "/*!": false, "/*!5": true, "/*M": false, "": false,
	} {
		var d Digester
		d.Digest([]byte(sql), 0)
		if got := d.marks.state == markDivergent; got != want || want && !d.Divergent() || divergent([]byte(sql)) != want {
			t.Errorf("%q: Divergent %v, by definition %v, want %v", sql, got, divergent([]byte(sql)), want)
		}
		d.Reset(0)
		if d.Divergent() {
			t.Errorf("%q: divergent after Reset", sql)
		}
		for i := range sql {
			d.Write([]byte(sql[i : i+1]))
		}
		d.Sum()
		if got := d.marks.state == markDivergent; got != want {
			t.Errorf("%q byte for byte: Divergent %v, want %v", sql, got, want)
		}
	}
}

// FuzzDivergent feeds the marks the bytes that are relevant to them, more densely than text does.
func FuzzDivergent(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, raw []byte, n uint8) {
		dense := make([]byte, len(raw))
		for i, c := range raw {
			dense[i] = "/*!M057 x"[c%9]
		}
		for _, sql := range [][]byte{raw, dense} {
			want := divergent(sql)
			for _, step := range []int{len(sql) + 1, int(n) + 1, 1} {
				var d Digester
				d.Reset(0)
				for rest := sql; len(rest) > 0; {
					k := min(step, len(rest))
					d.Write(rest[:k])
					rest = rest[k:]
				}
				d.Sum()
				if got := d.marks.state == markDivergent; got != want {
					t.Fatalf("%q in pieces of %d: divergent %v, want %v", sql, step, got, want)
				}
			}
		}
	})
}

// TestLineComments finds the NUL of a line comment in whichever piece it is, and no reason in a comment without one.
func TestLineComments(t *testing.T) {
	for sql, want := range map[string]bool{
		"select 1 -- a comment\n + 1": false, "delete #00\n": false, "select 1 # at the end": false, "#": false, "-- \n--\t\n": false,
		"select 1 -- a\x00comment\n + 1": true, "delete #\x00\n": true, "select 1 # at the end\x00": true,
	} {
		for _, mode := range []Mode{Mode(0).WithServer(Server{ServerMySQL, 90700}), Mode(0).WithServer(Server{ServerMariaDB, 101119}), Mode(0).WithServer(Server{ServerTiDB, 80011})} {
			for step := 1; step <= len(sql); step++ {
				var d Digester
				d.Reset(mode)
				for rest := sql; len(rest) > 0; rest = rest[min(step, len(rest)):] {
					d.Write([]byte(rest[:min(step, len(rest))]))
				}
				d.Sum()
				if got := d.Divergent(); got != want {
					t.Errorf("%q in pieces of %d, mode %v: divergent %v, want %v", sql, step, mode, got, want)
				}
			}
		}
	}
}
