package api_test

const rateField = "spec.limits.tokensPerSecondPerServer"

var limitValidations = map[string]validation{
	"empty limits":                       {spec: "limits: {}"},
	"limit of one token per second":      {spec: "limits: {tokensPerSecondPerServer: 1}"},
	"limit of 100,000 tokens per second": {spec: "limits: {tokensPerSecondPerServer: 100000}"},
	"limit of zero":                      {spec: "limits: {tokensPerSecondPerServer: 0}", wantField: rateField, wantRule: "should be greater than or equal to 1"},
	"negative limit":                     {spec: "limits: {tokensPerSecondPerServer: -1}", wantField: rateField, wantRule: "should be greater than or equal to 1"},
	"limit of 100,001 tokens per second": {spec: "limits: {tokensPerSecondPerServer: 100001}", wantField: rateField, wantRule: "should be less than or equal to 100000"},
	"fractional limit":                   {spec: "limits: {tokensPerSecondPerServer: 0.5}", wantField: rateField, wantRule: "must be of type int"},
	"limit as a word":                    {spec: "limits: {tokensPerSecondPerServer: few}", wantField: rateField, wantRule: "must be of type integer"},
}
