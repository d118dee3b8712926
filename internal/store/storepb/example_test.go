package storepb_test

import (
	"fmt"

	"github.com/taredb/tare/internal/store/storepb"
)

func ExampleSeriesRequest() {
	request := &storepb.SeriesRequest{
		MinTime: 1_700_000_000_000, MaxTime: 1_700_003_600_000,
		Matchers: []*storepb.LabelMatcher{
			{Type: storepb.LabelMatcher_EQ, Name: "__name__", Value: "up"},
			{Type: storepb.LabelMatcher_RE, Name: "job", Value: "mysql.*"},
		},
	}
	encoded, err := request.MarshalVT()
	if err != nil {
		fmt.Println(err)
		return
	}

	var decoded storepb.SeriesRequest
	if err := decoded.UnmarshalVT(encoded); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(encoded) == request.SizeVT(), decoded.GetMaxTime()-decoded.GetMinTime())
	for _, m := range decoded.GetMatchers() {
		fmt.Println(m.GetName(), m.GetType(), m.GetValue())
	}
	// Output:
	// true 3600000
	// __name__ EQ up
	// job RE mysql.*
}
