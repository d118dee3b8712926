package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestChart draws two panels and reads the drawing as XML.
func TestChart(t *testing.T) {
	line := []point{{0, 10}, {1, 180}, {2, 90}}
	p := panel{title: "before & after", series: []series{{"heap", "#000", line}}, level: 44, levelName: "idle < full", from: 0.5, to: 1.5, band: "import"}
	c := chart{title: "A chart", desc: "Of two panels.", panels: []panel{p, p}}
	var b strings.Builder
	if err := c.write(&b); err != nil {
		t.Fatal(err)
	}
	paths := 0
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the chart is no XML: %v\n%s", err, b.String())
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "path" {
			paths++
		}
	}
	// For each panel five lines of the scale, a series and the level; a legend of two.
	if want := 2*(5+1+1) + 2; paths != want {
		t.Errorf("%d lines are drawn, want %d", paths, want)
	}
	if !strings.Contains(b.String(), "before &amp; after") || !strings.Contains(b.String(), ">200<") {
		t.Errorf("the chart lacks its words:\n%s", b.String())
	}
}

// TestVariants has each plan cache find what it has read, and nothing else.
func TestVariants(t *testing.T) {
	for _, v := range planVariants() {
		c, err := v.make()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if err := c.read(smallStatement(nil, i)); err != nil {
				t.Fatalf("%s: %v", v.name, err)
			}
		}
		if !c.has(smallStatement(nil, 3)) || c.has(smallStatement(nil, 41)) || c.bytes() <= 0 {
			t.Errorf("%s does not find what it has, or finds what it has not", v.name)
		}
	}
}
