package frontend

import (
	"math/rand/v2"

	"github.com/taredb/tare/fleet/activeseries"
)

// SetDecoding changes how the bodies of later requests are decoded.
func (f *Frontend) SetDecoding(d Decoding) error {
	if err := d.validate(); err != nil {
		return err
	}
	f.decoding.Store(&d)
	return nil
}

// currentDecoding returns how bodies are decoded.
func (f *Frontend) currentDecoding() Decoding { return *f.decoding.Load() }

// chooseDecoding chooses how the bodies of one request are decoded, and whether by both implementations.
func (x *exchange) chooseDecoding() {
	x.decoding = x.f.currentDecoding()
	x.compare = x.decoding.Compare > 0 && rand.Float64() < x.decoding.Compare
	if x.compare {
		x.f.metrics.compared.Inc()
	}
}

// reportDifference reports bodies on which the two decoders disagree.
func (f *Frontend) reportDifference(d activeseries.Difference) {
	f.metrics.differences.Inc()
	f.latest.recordDifference(d)
	f.diag.Error("the decoders do not agree; option decoder chooses between them", "difference", d.String())
}
