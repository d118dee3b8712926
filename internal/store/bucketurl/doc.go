// Package bucketurl parses the URL of a directory or a bucket and opens the bucket. URLs contain no
// secrets, so they can be logged; credentials come from files or the environment:
//
//	u, err := bucketurl.Parse("s3://metrics?endpoint=minio.example.net:9000&region=eu-west-1")
//	if err != nil {
//		return err
//	}
//	bucket, err := u.Open()
//
// [URL] documents the parameters and the order in which credentials are searched.
package bucketurl
