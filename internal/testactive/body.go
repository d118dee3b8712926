package testactive

import "strconv"

// Body returns the response of shard i with n series of four labels, some 85 bytes each.
func Body(i, n int) []byte {
	b := []byte(`{"data":[`)
	for k := range n {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"__name__":"m_`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `","instance":"instance`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `","job":"prometheus`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `","series":"series_`...)
		b = strconv.AppendInt(b, int64(k), 10)
		b = append(b, `"}`...)
	}
	return append(b, `]}`...)
}

// Bodies returns the responses of the given number of shards.
func Bodies(shards, n int) [][]byte {
	bodies := make([][]byte, shards)
	for i := range bodies {
		bodies[i] = Body(i, n)
	}
	return bodies
}
