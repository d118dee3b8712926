package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestSVG parses the drawing as XML and counts its lines.
func TestSVG(t *testing.T) {
	line := Line{"heap", "#0f766e", []float64{0, 1, 2}, []float64{10, 180, 90}}
	p := Panel{Title: "before & after", Lines: []Line{line}, Level: 44, LevelName: "idle < full", From: 0.5, To: 1.5, Band: "import"}
	for _, c := range []struct {
		chart Chart
		paths int
	}{
		{Chart{Title: "A chart", Panels: []Panel{p, p}}, 2*(5+1+1) + 2}, // the scale, a line and the level; a legend of two
		{Chart{Title: "A chart", Panels: []Panel{p, p, p}, Stacked: true}, 3*(5+1+1) + 2},
		{Chart{Title: "A chart", Panels: []Panel{{Title: "empty", Lines: []Line{{}}}}}, 5 + 1},
		{Chart{Title: "A chart"}, 0},
	} {
		svg := c.chart.AppendSVG(nil)
		paths := 0
		for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("the chart is no XML: %v\n%s", err, svg)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "path" {
				paths++
			}
		}
		if paths != c.paths || strings.Contains(string(svg), "NaN") || !strings.Contains(string(svg), ">A chart</title>") {
			t.Errorf("%d panels: %d lines are drawn, want %d:\n%s", len(c.chart.Panels), paths, c.paths, svg)
		}
		if len(c.chart.Panels) > 1 && (!strings.Contains(string(svg), ">before &amp; after</text>") || !strings.Contains(string(svg), ">200</text>")) {
			t.Errorf("the chart lacks its title or scale:\n%s", svg)
		}
	}
}
