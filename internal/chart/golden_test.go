package chart

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the charts of testdata")

// TestDrawn compares charts with those of testdata, which a browser shows.
func TestDrawn(t *testing.T) {
	rising := Line{"heap", "#0f766e", []float64{0, 10, 20, 30}, []float64{0, 50, math.NaN(), 80}}
	plan := Line{Name: "planned", Color: "#334155"}
	p := Panel{Title: "MiB & more", Lines: []Line{rising, plan, {X: []float64{0, 40}, Y: []float64{100, 20}, Color: "#999999"}}, Level: 44, LevelName: "idle", From: 10, To: 20, Band: "import"}
	high := Panel{Title: "more", Lines: []Line{{"other", "#111111", []float64{0, 5}, []float64{0, 130}}}, Level: 160}
	for name, c := range map[string]Chart{
		"beside": {Title: "Beside <each> other", Desc: "Two panels.", XLabel: "seconds", Panels: []Panel{p, high}},
		"below":  {Title: "Below each other", Desc: "Two panels & scales.", XLabel: "seconds", Stacked: true, Panels: []Panel{p, high}},
		"small":  {Title: "Parts of one", XLabel: "seconds", Panels: []Panel{{Title: "small", Lines: []Line{{"a", "#111111", []float64{0, 0.7}, []float64{0.1, 0.8}}}, Level: 0.5, LevelName: "half", From: 0.2, To: 0.5}}},
		"none":   {Title: "Nothing"},
	} {
		file := filepath.Join("testdata", name+".svg")
		got := c.AppendSVG([]byte("<!-- before -->\n"))
		if *rewrite {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// TestElements writes parts of a picture.
func TestElements(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 10: "10", 1.5: "1.5", 1.25: "1.25", 1.256: "1.26", 100.001: "100", -2.5: "-2.5", 0.004: "0"} {
		var b SVG
		if b.Num(v); b.String() != want {
			t.Errorf("%v: %s, want %s", v, b.String(), want)
		}
	}
	for v, want := range map[float64]string{0: "0", 1.4: "1", 1.5: "2", 10: "10", -2.6: "-3"} {
		b := SVG{Whole: true}
		if b.Num(v); b.String() != want {
			t.Errorf("%v as a whole number: %s, want %s", v, b.String(), want)
		}
	}
	var b SVG
	b.WriteString("<rect")
	b.Attr("x", 1.5)
	b.Attr("y", 2)
	b.WriteString("/>")
	b.Element("title", "", "a < b")
	b.Element("text", `c"d`, "e & f")
	b.Text("<g>")
	const want = `<rect x="1.5" y="2"/><title>a &lt; b</title><text class="c&#34;d">e &amp; f</text>&lt;g&gt;`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

// TestOddScales has ranges that have no logarithm or no end, and checks what each scale must be: its marks are within it, evenly apart.
func TestOddScales(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, s := range []Scale{LogScale(0, 8), LogScale(8, 0), LogScale(-1, 8), LogScale(1, nan), LogScale(nan, 1), LogScale(-1, -2)} {
		if s.Log {
			t.Errorf("%+v", s)
		}
	}
	for _, s := range []Scale{LogScale(0.5, 8), LogScale(8, 0.5), LogScale(1e-5, 1e-4), LogScale(0.3, 1e5), LogScale(1, 1e12)} {
		ratio := s.Marks[1] / s.Marks[0]
		for i, m := range s.Marks[1:] {
			if math.Abs(m/s.Marks[i]/ratio-1) > 1e-9 {
				t.Errorf("%+v", s)
			}
		}
		if !s.Log || len(s.Marks) < 2 || len(s.Marks) > 6 || s.Marks[0] != s.Low || math.Abs(s.Marks[len(s.Marks)-1]/s.High-1) > 1e-9 {
			t.Errorf("%+v", s)
		}
	}
	if LogScale(1, inf).Log || LogScale(inf, 1).Log {
		t.Error("a scale without an end has a logarithm")
	}
	for _, c := range [][2]float64{{0, 1}, {0, 3}, {0, 7}, {-5, 95}, {-1, 1}, {0, 1e-3}, {0, 123456}, {-3, 0}} {
		s := LinearScale(c[0], c[1])
		step := s.Marks[1] - s.Marks[0]
		for i, m := range s.Marks {
			if math.Abs(m-s.Low-float64(i)*step) > step/1e6 || m < s.Low-step/1e6 || m > s.High+step/1e6 {
				t.Errorf("%v: %+v", c, s)
			}
		}
		if last := s.Marks[len(s.Marks)-1]; s.Marks[0] != s.Low || math.Abs(last-s.High) > step/1e6 || s.Low > c[0] || s.High < c[1] || c[0]-s.Low >= step || s.High-c[1] >= step || len(s.Marks) > 8 {
			t.Errorf("%v: %+v", c, s)
		}
	}
	if s := LinearScale(nan, inf); len(s.Marks) > 13 {
		t.Errorf("%+v", s)
	}
}
