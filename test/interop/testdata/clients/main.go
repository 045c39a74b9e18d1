package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"
)

// main calls each URL on the standard input and prints the status, or the error. "later" makes the token a
// minute older.
func main() {
	c := &Client{Directory: os.Args[1]}
	for urls := bufio.NewScanner(os.Stdin); urls.Scan(); {
		if urls.Text() == "later" {
			c.issued = c.issued.Add(-time.Minute)
			continue
		}
		response, err := c.Get(context.Background(), urls.Text())
		if err != nil {
			fmt.Printf("%q\n", err)
			continue
		}
		response.Body.Close()
		fmt.Println(response.StatusCode)
	}
}
