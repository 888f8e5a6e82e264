"""A compiled program to read: text that exercises ask about.

A step of six scanned layers and a mean, compiled for the four devices of a v5e:2x2
slice by libtpu 0.0.42.1 with JAX 0.10.2 on 2026-12-01, by the code in
``tests/test_hlo_example.py``. The tables of source lines are left out, and of the
settings all but the estimated cycles.
"""

# ruff: noqa: E501

from __future__ import annotations

__all__ = ["STEP"]

STEP = """\
HloModule jit_step, is_scheduled=true, entry_computation_layout={(bf16[6,200,200]{2,1,0:T(8,128)(2,1)}, bf16[100,200]{0,1:T(8,128)(2,1)})->f32[200]{0:T(256)}}, num_partitions=4

%bitcast_fusion.clone.1 (bitcast_input.2: bf16[100,200]) -> bf16[100,200] {
  %bitcast_input.2 = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} parameter(0)
  ROOT %bitcast.9 = bf16[100,200]{0,1:T(8,128)(2,1)} bitcast(%bitcast_input.2)
}

%fused_computation.1.clone.clone.clone.1 (param_0.16: bf16[6,200,200], param_1.18: s32[]) -> bf16[200,200] {
  %param_0.16 = bf16[6,200,200]{2,1,0:T(8,128)(2,1)} parameter(0)
  %param_1.18 = s32[]{:T(128)S(6)} parameter(1)
  %constant.4.clone.6 = s32[]{:T(128)} constant(0)
  %dynamic_slice.11 = bf16[1,200,200]{2,1,0:T(8,128)(2,1)} dynamic-slice(%param_0.16, %param_1.18, %constant.4.clone.6, %constant.4.clone.6), dynamic_slice_sizes={1,200,200}, metadata={op_name="jit(step)/layers/while/body/jit(dynamic_index_in_dim)/dynamic_slice"}
  ROOT %bitcast.8 = bf16[200,200]{1,0:T(8,128)(2,1)} bitcast(%dynamic_slice.11), metadata={op_name="jit(step)/layers/while/body/jit(dynamic_index_in_dim)/squeeze"}
}

%fused_computation.3.clone.1 (param_0.17: bf16[100,200], param_1.19: bf16[6,200,200], param_2.9: s32[]) -> bf16[100,200] {
  %param_0.17 = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} parameter(0)
  %fusion.12 = bf16[100,200]{0,1:T(8,128)(2,1)} fusion(%param_0.17), kind=kLoop, calls=%bitcast_fusion.clone.1
  %param_1.19 = bf16[6,200,200]{2,1,0:T(8,128)(2,1)} parameter(1)
  %param_2.9 = s32[]{:T(128)S(6)} parameter(2)
  %fusion.11 = bf16[200,200]{1,0:T(8,128)(2,1)} fusion(%param_1.19, %param_2.9), kind=kLoop, calls=%fused_computation.1.clone.clone.clone.1, metadata={op_name="jit(step)/layers/while/body/jit(dynamic_index_in_dim)/squeeze"}
  %convolution.5 = bf16[100,200]{0,1:T(8,128)(2,1)} convolution(%fusion.12, %fusion.11), dim_labels=bf_io->bf, metadata={op_name="jit(step)/layers/while/body/closed_call/dot_general"}
  %convert = f32[100,200]{0,1:T(8,128)} convert(%convolution.5)
  %tanh.6 = f32[100,200]{0,1:T(8,128)} tanh(%convert), metadata={op_name="jit(step)/layers/while/body/closed_call/tanh"}
  ROOT %convert.1 = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} convert(%tanh.6)
}

%wide.region_0.1_spmd.sunk (wide.param.2: (s32[], bf16[100,200], bf16[6,200,200], s32[])) -> (s32[], bf16[100,200], bf16[6,200,200], s32[]) {
  %constant.3.clone.1..sunk = s32[]{:T(128)} constant(1)
  %wide.param.2 = (s32[]{:T(128)}, bf16[100,200]{0,1:T(8,128)(2,1)S(1)}, bf16[6,200,200]{2,1,0:T(8,128)(2,1)}, s32[]{:T(128)}) parameter(0)
  %get-tuple-element.46 = s32[]{:T(128)} get-tuple-element(%wide.param.2), index=0
  %copy.2 = s32[]{:T(128)S(6)} copy(%get-tuple-element.46)
  %add.4 = s32[]{:T(128)} add(%copy.2, %constant.3.clone.1..sunk), metadata={op_name="jit(step)/layers/while/body/add"}
  %get-tuple-element.53 = s32[]{:T(128)} get-tuple-element(%wide.param.2), index=3
  %get-tuple-element.52 = bf16[6,200,200]{2,1,0:T(8,128)(2,1)} get-tuple-element(%wide.param.2), index=2
  %get-tuple-element.47 = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} get-tuple-element(%wide.param.2), index=1
  %copy.11 = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} copy(%get-tuple-element.47), backend_config={"window_config":{"estimated_cycles":"2036"}}
  %fusion.13 = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} fusion(%copy.11, %get-tuple-element.52, %copy.2), kind=kOutput, calls=%fused_computation.3.clone.1, metadata={op_name="jit(step)/layers/while/body/closed_call/dot_general"}, backend_config={"window_config":{"estimated_cycles":"4372"}}
  ROOT %tuple.14 = (s32[]{:T(128)}, bf16[100,200]{0,1:T(8,128)(2,1)S(1)}, bf16[6,200,200]{2,1,0:T(8,128)(2,1)}, s32[]{:T(128)}) tuple(%add.4, %fusion.13, %get-tuple-element.52, %get-tuple-element.53)
}

%wide.region_1.2_spmd (wide.param.1: (s32[], bf16[100,200], bf16[6,200,200], s32[])) -> pred[] {
  %constant.2.clone.1 = s32[]{:T(128)} constant(6)
  %wide.param.1 = (s32[]{:T(128)}, bf16[100,200]{0,1:T(8,128)(2,1)S(1)}, bf16[6,200,200]{2,1,0:T(8,128)(2,1)}, s32[]{:T(128)}) parameter(0)
  %get-tuple-element.26 = s32[]{:T(128)} get-tuple-element(%wide.param.1), index=0
  ROOT %lt.3 = pred[]{:T(512)} compare(%get-tuple-element.26, %constant.2.clone.1), direction=LT, metadata={op_name="jit(step)/layers/while/cond/lt"}
}

%region_2.3 (reduce_sum.0: f32[], reduce_sum.1: f32[]) -> f32[] {
  %reduce_sum.1 = f32[]{:T(128)} parameter(1), metadata={op_name="jit(step)/loss/reduce_sum"}
  %reduce_sum.0 = f32[]{:T(128)} parameter(0), metadata={op_name="jit(step)/loss/reduce_sum"}
  ROOT %reduce_sum.2 = f32[]{:T(128)} add(%reduce_sum.0, %reduce_sum.1), metadata={op_name="jit(step)/loss/reduce_sum"}
}

%fused_computation.5 (param_0.13: bf16[100,200]) -> f32[200] {
  %param_0.13 = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} parameter(0)
  %convert_element_type.3 = f32[100,200]{0,1:T(8,128)} convert(%param_0.13), metadata={op_name="jit(step)/loss/convert_element_type"}
  %integer_pow.3 = f32[100,200]{0,1:T(8,128)} multiply(%convert_element_type.3, %convert_element_type.3), metadata={op_name="jit(step)/loss/integer_pow"}
  %constant.12.clone.1 = f32[]{:T(128)} constant(0)
  ROOT %reduce.1 = f32[200]{0:T(256)S(1)} reduce(%integer_pow.3, %constant.12.clone.1), dimensions={0}, to_apply=%region_2.3, metadata={op_name="jit(step)/loss/reduce_sum"}
}

%region_2.3.clone (reduce_sum.8: f32[], reduce_sum.9: f32[]) -> f32[] {
  %reduce_sum.9 = f32[]{:T(128)} parameter(1), metadata={op_name="jit(step)/loss/reduce_sum"}
  %reduce_sum.8 = f32[]{:T(128)} parameter(0), metadata={op_name="jit(step)/loss/reduce_sum"}
  ROOT %reduce_sum.10 = f32[]{:T(128)} add(%reduce_sum.8, %reduce_sum.9), metadata={op_name="jit(step)/loss/reduce_sum"}
}

%fused_computation.6 (param_0.12: f32[200]) -> f32[200] {
  %param_0.12 = f32[200]{0:T(256)S(1)} parameter(0)
  %constant.13.clone.1 = f32[]{:T(128)} constant(0.0025)
  %div.7 = f32[200]{0:T(256)} broadcast(%constant.13.clone.1), dimensions={}, metadata={op_name="jit(step)/loss/div"}
  ROOT %div.6 = f32[200]{0:T(256)} multiply(%param_0.12, %div.7), metadata={op_name="jit(step)/loss/div"}
}

ENTRY %main.4_spmd (param.3: bf16[6,200,200], param.2: bf16[100,200]) -> f32[200] {
  %constant.7.clone = s32[]{:T(128)} constant(0)
  %constant.3.clone.1 = s32[]{:T(128)} constant(1)
  %param.3 = bf16[6,200,200]{2,1,0:T(8,128)(2,1)} parameter(0), metadata={op_name="w"}
  %param.2 = bf16[100,200]{0,1:T(8,128)(2,1)} parameter(1), metadata={op_name="x"}
  %copy-start = (bf16[100,200]{0,1:T(8,128)(2,1)S(1)}, bf16[100,200]{0,1:T(8,128)(2,1)}, u32[]{:S(2)}) copy-start(%param.2)
  %copy.9 = s32[]{:T(128)} copy(%constant.7.clone)
  %copy-done = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} copy-done(%copy-start)
  %tuple.15 = (s32[]{:T(128)}, bf16[100,200]{0,1:T(8,128)(2,1)S(1)}, bf16[6,200,200]{2,1,0:T(8,128)(2,1)}, s32[]{:T(128)}) tuple(%copy.9, %copy-done, %param.3, %constant.3.clone.1)
  %while.9 = (s32[]{:T(128)}, bf16[100,200]{0,1:T(8,128)(2,1)S(1)}, bf16[6,200,200]{2,1,0:T(8,128)(2,1)}, s32[]{:T(128)}) while(%tuple.15), condition=%wide.region_1.2_spmd, body=%wide.region_0.1_spmd.sunk, metadata={op_name="jit(step)/layers/while"}
  %get-tuple-element.16 = bf16[100,200]{0,1:T(8,128)(2,1)S(1)} get-tuple-element(%while.9), index=1, metadata={op_name="jit(step)/layers/while"}
  %multiply_reduce_fusion = f32[200]{0:T(256)S(1)} fusion(%get-tuple-element.16), kind=kLoop, calls=%fused_computation.5, metadata={op_name="jit(step)/loss/reduce_sum"}, backend_config={"window_config":{"estimated_cycles":"2152"}}
  %all-reduce = f32[200]{0:T(256)S(1)} all-reduce(%multiply_reduce_fusion), channel_id=1, replica_groups=mesh['axis_0'=4,'axis_1'=1] {'axis_0'}, use_global_device_ids=true, to_apply=%region_2.3.clone, metadata={op_name="jit(step)/loss/reduce_sum"}
  ROOT %broadcast_multiply_fusion = f32[200]{0:T(256)} fusion(%all-reduce), kind=kLoop, calls=%fused_computation.6, metadata={op_name="jit(step)/loss/div"}, backend_config={"window_config":{"estimated_cycles":"1828"}}
}
"""
