import{Ma as o,a as p,c as m}from"./chunk-L5QZBU7K.js";m(p(o,null),document.getElementById("app"));
