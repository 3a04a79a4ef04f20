import{Ma as o,a as p,c as m}from"./chunk-BKZERRGJ.js";m(p(o,null),document.getElementById("app"));
