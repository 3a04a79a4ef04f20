import{Pa as o,a as p,c as m}from"./chunk-LEDGAAY7.js";m(p(o,null),document.getElementById("app"));
