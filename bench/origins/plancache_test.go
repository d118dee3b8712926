package main

import "testing"

// TestVariants expects each plan cache to find the statements that it has read, and no others.
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
