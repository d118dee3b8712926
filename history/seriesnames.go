package history

// A SeriesInfo says what one metric of the history is.
type SeriesInfo struct {
	Name, Type string
	Labels     []string // besides those that an archive is given
	Help       string
}

// Series are the metrics that an Archive writes.
func Series() []SeriesInfo {
	key := []string{labelDigest, labelSchema, labelUser, labelBackend}
	return []SeriesInfo{
		{nameQueries, "counter", key, "Finished statements."},
		{nameErrors, "counter", append(key[:len(key):len(key)], labelClass), "Failed statements, by class of error."},
		{nameRowsSent, "counter", key, "Rows sent to clients."},
		{nameRowsAffected, "counter", key, "Rows changed."},
		{nameBytesSent, "counter", key, "Bytes of the responses, packet headers included."},
		{nameDuration, "native histogram", key, "Statement durations, schema 5: quantiles within 2.2 %."},
		{nameInfo, "gauge", []string{labelDigest, labelText}, "1; text of a digest, with ? for its literals."},
	}
}
