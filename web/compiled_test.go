package web

import (
	"bytes"
	"fmt"
	"html/template"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// TestPagesEqualTemplates fills the data of each page at random, and compares the compiled page with what html/template writes.
func TestPagesEqualTemplates(t *testing.T) {
	for _, page := range sortedKeys(pageData) {
		t.Run(page, func(t *testing.T) {
			set, equal, failed := parsePage(t, page), 0, 0
			for seed := range uint64(100) {
				r := rand.New(rand.NewPCG(seed, 1))
				var f frame
				fill(r, reflect.ValueOf(&f).Elem(), 5)
				data := reflect.New(pageData[page]).Elem()
				if data.Kind() == reflect.Pointer {
					data.Set(reflect.New(data.Type().Elem()))
					fill(r, data.Elem(), 5)
				} else {
					fill(r, data, 5)
				}
				f.Page = data.Interface()
				var want bytes.Buffer
				problem := set.ExecuteTemplate(&want, "layout", f)
				got, err := compiled(page, f)
				switch {
				case problem != nil && err != nil:
					failed++
				case problem != nil || err != nil:
					t.Fatalf("seed %d: the template fails with %v, the compiled page with %v", seed, problem, err)
				case !bytes.Equal(got, want.Bytes()):
					n := 0
					for n < min(len(got), want.Len()) && got[n] == want.Bytes()[n] {
						n++
					}
					t.Fatalf("seed %d: byte %d: the page has\n%.200s\nthe template writes\n%.200s", seed, n, got[max(n-80, 0):], want.Bytes()[max(n-80, 0):])
				default:
					equal++
				}
			}
			if equal < 20 {
				t.Errorf("%d of 100 pages could be written, %d failed", equal, failed)
			}
		})
	}
}

// TestPageOfOtherData renders a page with data of another page.
func TestPageOfOtherData(t *testing.T) {
	var b bytes.Buffer
	if err := mainOf("live")(&b, frame{Page: &problem{}}); err == nil || err.Error() != "page live: data of type *web.problem" {
		t.Errorf("the page says %v", err)
	}
}

func compiled(page string, f frame) (text []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	var content, b bytes.Buffer
	if err := mainOf(page)(&content, f); err != nil {
		return nil, err
	}
	partLayout(&b, f, content.Bytes())
	return b.Bytes(), nil
}

var oddTexts = []string{
	"", "", "ok", "done", "failed", "earlier", "pass", "descending", "ascending", "finished", "tare", "<b>\"x\"&'+\x00</b>", "/query/1?a=b&c=d%41%zz é()'",
	"javascript:alert(1)", "https://x/?q={a=\"b\"}", "\xff\u2028&amp;", "mailto:a@b", "a/b:c",
}

// fill gives a value, and all that it refers to, values at random. Unexported fields of this package's types, too, but for charts'.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	if !v.CanSet() {
		v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() //nolint:gosec // an unexported field of a test's value
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.String:
		v.SetString(oddTexts[r.IntN(len(oddTexts))])
		if v.Type() == reflect.TypeFor[template.HTML]() {
			v.SetString([]string{"", "<i title=\"+\">x</i>"}[r.IntN(2)])
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(4)))
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(r.Int64N(int64(time.Minute)))
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(r.IntN(4)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{-1, 0, 0.25, 1, 1234.5}[r.IntN(5)])
	case reflect.Pointer:
		if depth > 0 && r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
			for i := range v.Len() {
				fill(r, v.Index(i), depth-1)
			}
		}
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[time.Time]():
			if r.IntN(4) > 0 {
				v.Set(reflect.ValueOf(time.Unix(1_700_000_000+r.Int64N(1e7), 0).UTC()))
			}
			return
		case reflect.TypeFor[barChart](), reflect.TypeFor[lineChart](), reflect.TypeFor[timeLine](), reflect.TypeFor[heatMap]():
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || v.Type().PkgPath() == reflect.TypeFor[frame]().PkgPath() {
				fill(r, v.Field(i), depth)
			}
		}
	}
}

// TestPageFails renders a page that fails: the response is an error, and the log has the reason.
func TestPageFails(t *testing.T) {
	var log bytes.Buffer
	d := &renderer{title: "x", log: slog.New(slog.NewTextHandler(&log, nil))}
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/x", nil)
	d.render(w, r, &page{path: "/x", title: "X", template: "live", fixed: true}, &view{}, &problem{}, http.StatusOK)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "<") || !strings.Contains(log.String(), "page live: data of type *web.problem") {
		t.Errorf("%d %s\n%s", w.Code, w.Body, log.String())
	}
}
