/* act.h -- activations and norms, which a model's configuration names and a device computes. */
#ifndef RF_ACT_H
#define RF_ACT_H

enum rf_act { RF_ACT_SILU, RF_ACT_RELU, RF_ACT_ELU, RF_ACT_IDENTITY }; /* ELU: elu(x) + 1 */
/* L2: x / sqrt(sum x^2 + 1e-6); SUM: x / sum x */
enum rf_norm { RF_NORM_NONE, RF_NORM_L2, RF_NORM_SUM };

#endif
