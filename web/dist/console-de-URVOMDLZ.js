import{Ma as o,a as p,c as m}from"./chunk-6VJSSP3S.js";m(p(o,null),document.getElementById("app"));
