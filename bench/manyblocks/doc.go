// Command manyblocks measures how long a store takes for one series of all blocks of a bucket, beside Thanos' store.
//
//	go run ./manyblocks [-blocks 1,100,10000] [-only directory] [-starts 5] [-rounds 9] [-bucket DIR] [-limit 25m]
//
// The buckets have blocks of two hours with 200 series each. Each store runs alone, over a directory and over an S3
// server in this process that sends each response after 20 ms. Both are queried by the same client over the StoreAPI.
// For each store the command reports:
//
//   - the time from the start until it is ready, and until it has loaded all index headers that it loads before a query;
//   - the time of the first query after that, and the median of the rounds after it;
//   - for Tare also the first query of another start, sent as soon as the store is ready;
//   - the most memory that queries have reserved, of Tare, and its part of the budget of a query;
//   - resident memory after the queries;
//   - requests of the S3 server before and during the first query.
//
// Small buckets are measured with -starts starts of each store in turn, 1,000 blocks or more with one: the values are
// medians. All stores must return the same chunks; otherwise the command fails.
//
// Writing 10,000 blocks takes minutes. The buckets of -bucket are kept for later runs.
package main
