package frontend

import (
	"math/rand/v2"

	"github.com/taredb/tare/activeseries"
)

// SetDecoding changes how the bodies of further requests are decoded.
func (f *Frontend) SetDecoding(d Decoding) error {
	if err := d.Validate(); err != nil {
		return err
	}
	f.decoding.Store(&d)
	return nil
}

// Decoding is how bodies are decoded.
func (f *Frontend) Decoding() Decoding { return *f.decoding.Load() }

// chooseDecoding says how the bodies of one request are decoded, and whether by both implementations.
func (x *exchange) chooseDecoding() {
	x.decoding = x.f.Decoding()
	x.compare = x.decoding.Compare > 0 && rand.Float64() < x.decoding.Compare
	if x.compare {
		x.f.metrics.compared.Inc()
	}
}

// differ is told of bodies that the two decoders do not agree on.
func (f *Frontend) differ(d activeseries.Difference) {
	f.metrics.differences.Inc()
	f.latest.differ(d)
	f.diag.Error("the decoders do not agree; --decoder chooses between them", "difference", d.String())
}
