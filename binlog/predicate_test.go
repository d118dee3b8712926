package binlog

func values(texts ...string) [][]byte {
	var v [][]byte
	for _, s := range texts {
		v = append(v, []byte(s))
	}
	return v
}
